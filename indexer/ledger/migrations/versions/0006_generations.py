"""Generations of a collection.

Revision ID: 0006
Revises: 0005
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("collections", sa.Column("generation", sa.Integer(), nullable=False, server_default="1"))
    op.add_column("collections", sa.Column("building", sa.JSON(), nullable=True))
    op.add_column("collections", sa.Column("previous", sa.JSON(), nullable=True))


def downgrade() -> None:
    for name in ("previous", "building", "generation"):
        op.drop_column("collections", name)
