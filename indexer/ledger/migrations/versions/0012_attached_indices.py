"""Which indices got vectors of an attached collection, by their own names."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "attached_indices",
        sa.Column("collection", sa.String(), primary_key=True),
        sa.Column("uuid", sa.String(), primary_key=True),
        sa.Column("name", sa.String(), nullable=False),
    )


def downgrade() -> None:
    op.drop_table("attached_indices")
