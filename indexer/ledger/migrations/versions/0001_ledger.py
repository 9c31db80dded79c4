"""Collections and the ledger of index runs.

Revision ID: 0001
Revises:
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "collections",
        sa.Column("name", sa.String(), primary_key=True),
        sa.Column("store", sa.String(), nullable=False),
        sa.Column("encoder", sa.String(), nullable=False),
        sa.Column("method", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("dim", sa.Integer(), nullable=False),
        sa.Column("created", sa.DateTime(), nullable=False),
    )
    op.create_table(
        "index_runs",
        sa.Column("id", sa.Integer(), primary_key=True),
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
    )
    op.create_index("ix_index_runs_collection", "index_runs", ["collection"])
    op.create_table(
        "chunks",
        sa.Column("run_id", sa.Integer(), sa.ForeignKey("index_runs.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("number", sa.Integer(), primary_key=True),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("documents", sa.Integer(), nullable=False),
        sa.Column("todo", sa.LargeBinary(), nullable=False),
        sa.Column("updated", sa.DateTime(), nullable=False),
    )
    op.create_table(
        "findings",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("run_id", sa.Integer(), sa.ForeignKey("index_runs.id", ondelete="CASCADE"), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("place", sa.String(), nullable=False),
        sa.Column("doc_id", sa.String(), nullable=False),
        sa.Column("text", sa.String(), nullable=False),
    )
    op.create_index("ix_findings_run_id", "findings", ["run_id"])
    op.create_table(
        "seen_documents",
        sa.Column("run_id", sa.Integer(), sa.ForeignKey("index_runs.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("key", sa.BigInteger(), primary_key=True, autoincrement=False),
    )


def downgrade() -> None:
    for table in ("seen_documents", "findings", "chunks", "index_runs", "collections"):
        op.drop_table(table)
