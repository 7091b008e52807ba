"""Text for man pages."""

from __future__ import annotations


def escaped(text: str) -> str:
    """Text in which nothing is a request or a special character."""
    plain = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace('"', "\\(dq")
    return f"\\&{plain}" if plain.startswith(".") else plain
