"""Script that alembic runs: the migrations, in the transaction that ``freetrain.store.schema`` has begun."""

from __future__ import annotations

from alembic import context

from freetrain.store.tables import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
