"""The evaluation log.

Revision ID: 0002
Revises: 0001
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "evaluations",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("created", sa.DateTime(), nullable=False),
        sa.Column("collection", sa.String(), nullable=False),
        sa.Column("tag", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("build", sa.String(), nullable=False),
        sa.Column("space", sa.String(), nullable=False),
        sa.Column("settings", sa.JSON(), nullable=False),
        sa.Column("topics", sa.String(), nullable=False),
        sa.Column("topics_hash", sa.String(), nullable=False),
        sa.Column("qrels_hash", sa.String(), nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_evaluations_collection", "evaluations", ["collection"])
    op.create_table(
        "evaluation_runs",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("evaluation_id", sa.Integer(), sa.ForeignKey("evaluations.id", ondelete="CASCADE"), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("lang", sa.String(), nullable=False),
        sa.Column("main", sa.Boolean(), nullable=False),
        sa.Column("topic_count", sa.Integer(), nullable=False),
        sa.Column("unjudged", sa.JSON(), nullable=False),
        sa.Column("without_hits", sa.JSON(), nullable=False),
        sa.Column("means", sa.JSON(), nullable=False),
        sa.Column("trec", sa.LargeBinary(), nullable=True),
        sa.UniqueConstraint("evaluation_id", "name", name="uq_evaluation_runs_name"),
    )
    op.create_table(
        "evaluation_scores",
        sa.Column("run_id", sa.Integer(), sa.ForeignKey("evaluation_runs.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("qid", sa.String(), primary_key=True),
        sa.Column("measure", sa.String(), primary_key=True),
        sa.Column("lang", sa.String(), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
    )


def downgrade() -> None:
    for table in ("evaluation_scores", "evaluation_runs", "evaluations"):
        op.drop_table(table)
