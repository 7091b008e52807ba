"""``python -m freetrain`` is the same as ``freetrain``."""

from freetrain.cli.main import main

main()
