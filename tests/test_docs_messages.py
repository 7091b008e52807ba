"""docs/reference/messages.md says what every message of freetrain's logs means, and no more than there are."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).parents[1]
PAGE = PROJECT / "docs/reference/messages.md"
SAID = {"info", "warning", "error", "exception", "log"}


def messages() -> Iterator[str]:
    """With … for what differs; those that are somebody else's words alone are left out."""
    for path in (PROJECT / "freetrain").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(ast.Attribute(ast.Name("log"), str(said)), args) if said in SAID:
                    text = ast.literal_eval(args[said == "log"])
                    shown = re.sub(r"%[.\d]*[a-z]", "…", text)
                    if re.search(r"\w", shown.replace("…", "")) or "(" in shown:
                        yield shown


def test_every_message_is_explained_and_every_explained_message_exists() -> None:
    explained = set(re.findall(r"^\| `([^`]+)` \|", PAGE.read_text(), re.MULTILINE))
    assert explained == set(messages())
