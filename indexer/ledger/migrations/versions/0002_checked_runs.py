"""Collections remember the last run after which their calibration was looked at; workers count unread messages."""

import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "0002", "0001", None, None


def upgrade() -> None:
    op.add_column("collections", sa.Column("checked_run", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("workers", sa.Column("unread", sa.Integer(), nullable=False, server_default="0"))
    op.execute(
        "UPDATE collections SET checked_run = "
        "(SELECT COALESCE(MAX(id), 0) FROM index_runs WHERE index_runs.collection = collections.name "
        "AND index_runs.state NOT IN ('reading', 'running', 'paused'))"
    )
