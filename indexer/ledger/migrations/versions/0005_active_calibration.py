"""At most one active calibration of a collection and a model.

Revision ID: 0005
Revises: 0004
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    calibrations = sa.table(
        "calibrations",
        sa.column("collection", sa.String()),
        sa.column("id", sa.String()),
        sa.column("model", sa.String()),
        sa.column("created", sa.DateTime()),
        sa.column("active", sa.Boolean()),
    )
    newer = calibrations.alias("newer")
    replaced = sa.select(newer.c.id).where(
        newer.c.collection == calibrations.c.collection,
        newer.c.model == calibrations.c.model,
        newer.c.active,
        sa.tuple_(newer.c.created, newer.c.id) > sa.tuple_(calibrations.c.created, calibrations.c.id),
    )
    op.execute(calibrations.update().where(calibrations.c.active, sa.exists(replaced)).values(active=sa.false()))
    op.create_index(
        "active_calibration",
        "calibrations",
        ["collection", "model"],
        unique=True,
        sqlite_where=sa.text("active"),
        postgresql_where=sa.text("active"),
    )


def downgrade() -> None:
    op.drop_index("active_calibration", "calibrations")
