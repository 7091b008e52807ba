"""How slow."""

IMPORT_S = 0.3
