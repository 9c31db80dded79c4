"""Checkpoints of attached indices; a chunk's digest.

Revision ID: 0007
Revises: 0006
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "checkpoints",
        sa.Column("run_id", sa.Integer(), sa.ForeignKey("index_runs.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("shard", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("seq_no", sa.BigInteger(), nullable=False),
    )
    op.add_column("chunks", sa.Column("digest", sa.String(), nullable=False, server_default=""))


def downgrade() -> None:
    op.drop_column("chunks", "digest")
    op.drop_table("checkpoints")
