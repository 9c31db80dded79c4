"""Runs remember the encoding that was said of their sources."""

import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "0003", "0002", None, None


def upgrade() -> None:
    op.add_column("index_runs", sa.Column("encoding", sa.String(), nullable=False, server_default=""))
