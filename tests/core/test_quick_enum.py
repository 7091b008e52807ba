from __future__ import annotations

import pickle
from enum import StrEnum

import pytest

from freetrain.core.fragment import FragmentState
from freetrain.core.quick_enum import quick


@quick
class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


def test_members_are_plain_attributes_of_their_class() -> None:
    assert vars(Colour)["RED"] is Colour("red")
    assert vars(FragmentState)["LOST"] is FragmentState("lost")


def test_all_else_is_as_with_any_other_enumeration() -> None:
    assert list(Colour) == [Colour.RED, Colour.BLUE]
    assert pickle.loads(pickle.dumps(Colour.BLUE)) is Colour.BLUE
    assert (Colour["RED"], Colour.RED.name, str(Colour.RED)) == (Colour.RED, "RED", "red")
    with pytest.raises(AttributeError):
        Colour.RED = Colour.BLUE  # type: ignore[misc]
