"""The numbering of a shard's writes that a checkpoint is a number of."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("checkpoints", sa.Column("history", sa.String(), nullable=False, server_default=""))


def downgrade() -> None:
    op.drop_column("checkpoints", "history")
