"""All tables, and the database's id, which tells its indices on a server from another database's."""

import uuid
from typing import Any

import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "0001", None, None, None

_TYPES: dict[str, sa.types.TypeEngine[Any]] = {
    "text": sa.String(), "int": sa.Integer(), "long": sa.BigInteger(), "float": sa.Double(), "flag": sa.Boolean(),
    "time": sa.DateTime(), "json": sa.JSON(), "bytes": sa.LargeBinary(),
}  # fmt: skip
_TABLES = {
    "attached_indices": "*collection:text *uuid:text name:text",
    "calibrations": "*collection:text *id:text model:text created:time active:flag summary:json artifact:bytes",
    "clicks": "*search:text *doc_id:text created:time",
    "collections": "*name:text store:text encoder:text method:text model:text dim:int created:time generation:int "
    "building:json? previous:json?",
    "evaluations": "*id:int created:time collection:text tag:text model:text build:text space:text settings:json "
    "topics:text topics_hash:text qrels_hash:text",
    "index_runs": "*id:int collection:text sources:json fingerprint:text model:text build:text state:text started:time "
    "finished:time? encoded:int unchanged:int pruned:int generation:int prune:flag spooled:flag swept:float "
    "builds:json? again:json?",
    "owners": "*id:text",
    "searches": "*id:text created:time collection:text query:text lang:text space:text settings:json hits:json "
    "took:int",
    "workers": "*id:text host:text device:text model:text build:text until:float run_id:int? chunk:int? documents:int "
    "error:text",
    "checkpoints": "*run_id:int *shard:int seq_no:long history:text",
    "chunks": "*run_id:int *number:int state:text documents:int todo:bytes digest:text updated:time wanted:int "
    "owner:text? until:float attempts:int build:text? error:text",
    "evaluation_runs": "*id:int evaluation_id:int name:text kind:text lang:text main:flag topic_count:int "
    "unjudged:json without_hits:json means:json found:json? trec:bytes?",
    "findings": "*id:int run_id:int kind:text place:text doc_id:text text:text",
    "seen_documents": "*run_id:int *key:long chunk:int",
    "spools": "*run_id:int *number:int documents:bytes",
    "evaluation_scores": "*run_id:int *qid:text *measure:text lang:text value:float",
}
"""Columns with their types by table: ``*`` begins a column of the primary key, ``?`` ends one that may be null."""

_PARENTS = {
    **dict.fromkeys(("checkpoints", "chunks", "findings", "seen_documents", "spools"), ("run_id", "index_runs.id")),
    "evaluation_runs": ("evaluation_id", "evaluations.id"),
    "evaluation_scores": ("run_id", "evaluation_runs.id"),
}
"""By table, the column that refers to a row of another table, with which the row is deleted."""


def upgrade() -> None:
    for table, described in _TABLES.items():
        parts: list[sa.schema.SchemaItem] = []
        keys = []
        for column in described.split():
            name, kind = column.strip("*?").split(":")
            parts.append(sa.Column(name, _TYPES[kind], nullable=column.endswith("?")))
            keys += [name] if column.startswith("*") else []
        if table in _PARENTS:
            child, parent = _PARENTS[table]
            parts.append(sa.ForeignKeyConstraint([child], [parent], ondelete="CASCADE"))
        parts.append(sa.PrimaryKeyConstraint(*keys))
        if table == "evaluation_runs":
            parts.append(sa.UniqueConstraint("evaluation_id", "name", name="uq_evaluation_runs_name"))
        op.create_table(table, *parts, sqlite_autoincrement=table == "evaluations")
    for table, column in (
        ("clicks", "created"),
        ("evaluations", "collection"),
        ("index_runs", "collection"),
        ("searches", "created"),
        ("findings", "run_id"),
    ):
        op.create_index(f"ix_{table}_{column}", table, [column])
    active = sa.text("active")
    op.create_index(
        "active_calibration",
        "calibrations",
        ["collection", "model"],
        unique=True,
        sqlite_where=active,
        postgresql_where=active,
    )
    for state in ("pending", "leased"):  # what workers look for, among many chunks that are done
        here = sa.text(f"state = '{state}'")
        op.create_index(f"ix_chunks_{state}", "chunks", ["run_id", "number"], postgresql_where=here, sqlite_where=here)
    op.bulk_insert(sa.table("owners", sa.column("id", sa.String())), [{"id": uuid.uuid4().hex}])
