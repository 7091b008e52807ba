"""The web page: how the daemon and the machine stand, read-only, made of ``status.json`` and the database."""
