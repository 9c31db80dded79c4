"""The encoder of runs in which workers encode a collection's own documents again."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("index_runs", sa.Column("again", sa.JSON(), nullable=True))


def downgrade() -> None:
    op.drop_column("index_runs", "again")
