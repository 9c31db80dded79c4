"""All tables, and the database's id, which tells its indices on a server from another database's."""

import uuid

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "attached_indices",
        sa.Column("collection", sa.String(), nullable=False),
        sa.Column("uuid", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("collection", "uuid"),
    )
    op.create_table(
        "calibrations",
        sa.Column("collection", sa.String(), nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("created", sa.DateTime(), nullable=False),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.Column("summary", sa.JSON(), nullable=False),
        sa.Column("artifact", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("collection", "id"),
    )
    op.create_index(
        "active_calibration",
        "calibrations",
        ["collection", "model"],
        unique=True,
        sqlite_where=sa.text("active"),
        postgresql_where=sa.text("active"),
    )
    op.create_table(
        "clicks",
        sa.Column("search", sa.String(), nullable=False),
        sa.Column("doc_id", sa.String(), nullable=False),
        sa.Column("created", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("search", "doc_id"),
    )
    op.create_index("ix_clicks_created", "clicks", ["created"])
    op.create_table(
        "collections",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("store", sa.String(), nullable=False),
        sa.Column("encoder", sa.String(), nullable=False),
        sa.Column("method", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("dim", sa.Integer(), nullable=False),
        sa.Column("created", sa.DateTime(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("building", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("previous", sa.JSON(none_as_null=True), nullable=True),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "evaluations",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("created", sa.DateTime(), nullable=False),
        sa.Column("collection", sa.String(), nullable=False),
        sa.Column("tag", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("build", sa.String(), nullable=False),
        sa.Column("space", sa.String(), nullable=False),
        sa.Column("settings", sa.JSON(), nullable=False),
        sa.Column("topics", sa.String(), nullable=False),
        sa.Column("topics_hash", sa.String(), nullable=False),
        sa.Column("qrels_hash", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_evaluations_collection", "evaluations", ["collection"])
    op.create_table(
        "index_runs",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("collection", sa.String(), nullable=False),
        sa.Column("sources", sa.JSON(), nullable=False),
        sa.Column("fingerprint", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("build", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("started", sa.DateTime(), nullable=False),
        sa.Column("finished", sa.DateTime(), nullable=True),
        sa.Column("encoded", sa.Integer(), nullable=False),
        sa.Column("unchanged", sa.Integer(), nullable=False),
        sa.Column("pruned", sa.Integer(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("prune", sa.Boolean(), nullable=False),
        sa.Column("spooled", sa.Boolean(), nullable=False),
        sa.Column("swept", sa.Double(), nullable=False),
        sa.Column("builds", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("again", sa.JSON(none_as_null=True), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_index_runs_collection", "index_runs", ["collection"])
    owners = op.create_table("owners", sa.Column("id", sa.String(), nullable=False), sa.PrimaryKeyConstraint("id"))
    op.bulk_insert(owners, [{"id": uuid.uuid4().hex}])
    op.create_table(
        "searches",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("created", sa.DateTime(), nullable=False),
        sa.Column("collection", sa.String(), nullable=False),
        sa.Column("query", sa.String(), nullable=False),
        sa.Column("lang", sa.String(), nullable=False),
        sa.Column("space", sa.String(), nullable=False),
        sa.Column("settings", sa.JSON(), nullable=False),
        sa.Column("hits", sa.JSON(), nullable=False),
        sa.Column("took", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_searches_created", "searches", ["created"])
    op.create_table(
        "workers",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("host", sa.String(), nullable=False),
        sa.Column("device", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("build", sa.String(), nullable=False),
        sa.Column("until", sa.Double(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=True),
        sa.Column("chunk", sa.Integer(), nullable=True),
        sa.Column("documents", sa.Integer(), nullable=False),
        sa.Column("error", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "checkpoints",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("shard", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("seq_no", sa.BigInteger(), nullable=False),
        sa.Column("history", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["index_runs.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "shard"),
    )
    op.create_table(
        "chunks",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("documents", sa.Integer(), nullable=False),
        sa.Column("todo", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("updated", sa.DateTime(), nullable=False),
        sa.Column("wanted", sa.Integer(), nullable=False),
        sa.Column("owner", sa.String(), nullable=True),
        sa.Column("until", sa.Double(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("build", sa.String(), nullable=True),
        sa.Column("error", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["index_runs.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "number"),
    )
    for state in ("pending", "leased"):  # what workers look for, among many chunks that are done
        here = sa.text(f"state = '{state}'")
        op.create_index(f"ix_chunks_{state}", "chunks", ["run_id", "number"], postgresql_where=here, sqlite_where=here)
    op.create_table(
        "evaluation_runs",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("evaluation_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("lang", sa.String(), nullable=False),
        sa.Column("main", sa.Boolean(), nullable=False),
        sa.Column("topic_count", sa.Integer(), nullable=False),
        sa.Column("unjudged", sa.JSON(), nullable=False),
        sa.Column("without_hits", sa.JSON(), nullable=False),
        sa.Column("means", sa.JSON(), nullable=False),
        sa.Column("found", sa.JSON(), nullable=True),
        sa.Column("trec", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(["evaluation_id"], ["evaluations.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("evaluation_id", "name", name="uq_evaluation_runs_name"),
    )
    op.create_table(
        "findings",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("place", sa.String(), nullable=False),
        sa.Column("doc_id", sa.String(), nullable=False),
        sa.Column("text", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["index_runs.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_findings_run_id", "findings", ["run_id"])
    op.create_table(
        "seen_documents",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("key", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("chunk", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["index_runs.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "key"),
    )
    op.create_table(
        "spools",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("documents", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["index_runs.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "number"),
    )
    op.create_table(
        "evaluation_scores",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("qid", sa.String(), nullable=False),
        sa.Column("measure", sa.String(), nullable=False),
        sa.Column("lang", sa.String(), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["evaluation_runs.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "qid", "measure"),
    )
