"""Which database a collection is in: what tells its indices on a shared server from those of another home."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from indexer.ledger.database import Base, transaction


class Owner(Base):
    """The id of this database, drawn when the table was made; there is one."""

    __tablename__ = "owners"

    id: Mapped[str] = mapped_column(primary_key=True)


def owner_of(engine: sa.Engine) -> str:
    """The id of a database."""
    with transaction(engine) as session:
        return session.scalars(sa.select(Owner.id)).one()
