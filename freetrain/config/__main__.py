"""``python -m freetrain.config``: write the texts that are made from the model; run it in the project's folder."""

from __future__ import annotations

from pathlib import Path

from freetrain.config.documents import write_documents

if __name__ == "__main__":
    write_documents(Path.cwd())
