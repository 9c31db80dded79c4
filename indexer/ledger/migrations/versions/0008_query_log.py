"""The query log: searches and clicks."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.create_table(
        "searches",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("created", sa.DateTime, nullable=False, index=True),
        sa.Column("collection", sa.String, nullable=False),
        sa.Column("query", sa.String, nullable=False),
        sa.Column("lang", sa.String, nullable=False),
        sa.Column("space", sa.String, nullable=False),
        sa.Column("settings", sa.JSON, nullable=False),
        sa.Column("hits", sa.JSON, nullable=False),
        sa.Column("took", sa.Integer, nullable=False),
    )
    op.create_table(
        "clicks",
        sa.Column("search", sa.String, primary_key=True),
        sa.Column("doc_id", sa.String, primary_key=True),
        sa.Column("created", sa.DateTime, nullable=False, index=True),
    )


def downgrade() -> None:
    op.drop_table("clicks")
    op.drop_table("searches")
