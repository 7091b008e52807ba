"""Migrations by alembic: each numbered file in ``versions/`` leads from one schema to the next.

``freetrain.store.schema`` runs them when an older store is opened for writing, after it has copied the file.
They are history and stay as they are; a new one gets the next number, which ``schema.SCHEMA`` names.
"""
