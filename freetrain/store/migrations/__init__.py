"""The store's migrations; alembic runs them when a store is opened."""
