"""Chunks that workers lease, their documents, the workers themselves.

Revision ID: 0009
Revises: 0008
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for column in (
        sa.Column("generation", sa.Integer(), nullable=False, server_default="1"),
        sa.Column("prune", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("spooled", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("swept", sa.Double(), nullable=False, server_default="0"),
        sa.Column("builds", sa.JSON(), nullable=True),
    ):
        op.add_column("index_runs", column)
    for of_chunk in (
        sa.Column("wanted", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("owner", sa.String(), nullable=True),
        sa.Column("until", sa.Double(), nullable=False, server_default="0"),
        sa.Column("attempts", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("build", sa.String(), nullable=True),
        sa.Column("error", sa.String(), nullable=False, server_default=""),
    ):
        op.add_column("chunks", of_chunk)
    op.add_column("seen_documents", sa.Column("chunk", sa.Integer(), nullable=False, server_default="0"))
    for state in ("pending", "leased"):  # of a million chunks the few that are looked for
        here = sa.text(f"state = '{state}'")
        op.create_index(f"ix_chunks_{state}", "chunks", ["run_id", "number"], postgresql_where=here, sqlite_where=here)
    op.create_table(
        "spools",
        sa.Column("run_id", sa.Integer(), sa.ForeignKey("index_runs.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("number", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("documents", sa.LargeBinary(), nullable=False),
    )
    op.create_table(
        "workers",
        sa.Column("id", sa.String(), primary_key=True),
        sa.Column("host", sa.String(), nullable=False),
        sa.Column("device", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("build", sa.String(), nullable=False),
        sa.Column("until", sa.Double(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=True),
        sa.Column("chunk", sa.Integer(), nullable=True),
        sa.Column("documents", sa.Integer(), nullable=False),
        sa.Column("error", sa.String(), nullable=False),
    )


def downgrade() -> None:
    op.drop_table("workers")
    op.drop_table("spools")
    for state in ("pending", "leased"):
        op.drop_index(f"ix_chunks_{state}", "chunks")
    op.drop_column("seen_documents", "chunk")
    for name in ("error", "build", "attempts", "until", "owner", "wanted"):
        op.drop_column("chunks", name)
    for name in ("builds", "swept", "spooled", "prune", "generation"):
        op.drop_column("index_runs", name)
