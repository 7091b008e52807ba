"""The order in which people expect nodes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

_DIGITS = re.compile(r"(\d+)")


def in_order(names: Iterable[str]) -> list[str]:
    """``c9`` before ``c10``."""
    return sorted(names, key=_key)


@lru_cache(maxsize=1 << 16)
def _key(name: str) -> tuple[tuple[str, int], ...]:
    parts = _DIGITS.split(name)
    return tuple((text, int(digits or 0)) for text, digits in zip(parts[::2], [*parts[1::2], ""], strict=True))
