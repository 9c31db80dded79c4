"""An id of the database, by which a server's indices are told from those of other homes."""

import uuid

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    owners = op.create_table("owners", sa.Column("id", sa.String(), primary_key=True))
    op.bulk_insert(owners, [{"id": uuid.uuid4().hex}])


def downgrade() -> None:
    op.drop_table("owners")
