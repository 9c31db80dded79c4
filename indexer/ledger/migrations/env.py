"""Alembic's door: runs the migrations on the connection it is handed by ``indexer.ledger.database.upgrade``."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], target_metadata=None, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
