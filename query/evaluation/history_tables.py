"""The tables of the evaluation log; ``query.evaluation.history`` reads and writes them."""

from __future__ import annotations

import datetime as dt
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from indexer.ledger.database import Base


class EvaluationRow(Base):
    """One ``dragoman evaluate``: what was asked, of what, with which settings."""

    __tablename__ = "evaluations"
    __table_args__ = ({"sqlite_autoincrement": True},)  # a number once written down never means another evaluation

    id: Mapped[int] = mapped_column(primary_key=True)
    created: Mapped[dt.datetime]
    collection: Mapped[str] = mapped_column(index=True)
    tag: Mapped[str]
    model: Mapped[str]
    build: Mapped[str]
    space: Mapped[str]
    settings: Mapped[dict[str, Any]] = mapped_column(sa.JSON)
    topics: Mapped[str]
    topics_hash: Mapped[str]
    qrels_hash: Mapped[str]


class RunRow(Base):
    """One run of an evaluation, with its means and its ranking."""

    __tablename__ = "evaluation_runs"
    __table_args__ = (sa.UniqueConstraint("evaluation_id", "name", name="uq_evaluation_runs_name"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    evaluation_id: Mapped[int] = mapped_column(sa.ForeignKey("evaluations.id", ondelete="CASCADE"))
    name: Mapped[str]
    kind: Mapped[str]
    lang: Mapped[str]
    main: Mapped[bool]
    topic_count: Mapped[int]
    unjudged: Mapped[list[str]] = mapped_column(sa.JSON)
    without_hits: Mapped[list[str]] = mapped_column(sa.JSON)
    means: Mapped[dict[str, float]] = mapped_column(sa.JSON)
    found: Mapped[dict[str, list[int]] | None] = mapped_column(sa.JSON)
    trec: Mapped[bytes | None] = mapped_column(sa.LargeBinary, deferred=True)


class ScoreRow(Base):
    """One topic's value by one measure in one run."""

    __tablename__ = "evaluation_scores"

    run_id: Mapped[int] = mapped_column(sa.ForeignKey("evaluation_runs.id", ondelete="CASCADE"), primary_key=True)
    qid: Mapped[str] = mapped_column(primary_key=True)
    measure: Mapped[str] = mapped_column(primary_key=True)
    lang: Mapped[str]
    value: Mapped[float] = mapped_column(sa.Double)
