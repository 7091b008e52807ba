"""Values by their keys. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TypeVar

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


def grouped(pairs: Iterable[tuple[KeyT, ValueT]]) -> defaultdict[KeyT, list[ValueT]]:
    """Key → its values, in their order; a key that has none has an empty list."""
    found: defaultdict[KeyT, list[ValueT]] = defaultdict(list)
    for key, value in pairs:
        found[key].append(value)
    return found
