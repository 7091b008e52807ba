from __future__ import annotations

from pathlib import Path

import pytest

from tests.replay.logs.build import Write


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a text to a file of its own and gives its path."""

    def write_text(text: str | bytes) -> Path:
        path = tmp_path / f"log{len(list(tmp_path.iterdir()))}"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write_text
