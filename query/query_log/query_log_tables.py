"""Tables of the query log."""

import datetime as dt
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from indexer.ledger.database import Base


class SearchRow(Base):
    """A search: its query, and the documents shown."""

    __tablename__ = "searches"

    id: Mapped[str] = mapped_column(primary_key=True)
    created: Mapped[dt.datetime] = mapped_column(index=True)
    collection: Mapped[str]
    query: Mapped[str]
    lang: Mapped[str]
    space: Mapped[str]
    settings: Mapped[dict[str, Any]] = mapped_column(sa.JSON)
    hits: Mapped[list[str]] = mapped_column(sa.JSON)
    took: Mapped[int]


class ClickRow(Base):
    """A hit of a search that a user opened."""

    __tablename__ = "clicks"

    search: Mapped[str] = mapped_column(primary_key=True)
    doc_id: Mapped[str] = mapped_column(primary_key=True)
    created: Mapped[dt.datetime] = mapped_column(index=True)
