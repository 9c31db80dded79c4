"""Alembic's environment: runs the migrations on the connection that ``indexer.ledger.database.upgrade`` passes."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], target_metadata=None, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
