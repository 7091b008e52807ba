from __future__ import annotations

import pytest

from freetrain.elastic.errors import BrokenWorldError
from freetrain.elastic.membership.breaks import Breaks

ERROR = RuntimeError("no route")


def test_the_third_world_in_a_row_that_breaks_with_nobody_missing_ends_a_newcomer() -> None:
    breaks = Breaks()
    breaks.count(None, "start", 0)
    breaks.count(ERROR, "broken", 0)
    breaks.count(ERROR, "broken", 0)
    with pytest.raises(BrokenWorldError, match="3 worlds in a row broke although no member was missing") as raised:
        breaks.count(ERROR, "broken", 0)
    assert raised.value.__cause__ is ERROR


@pytest.mark.parametrize("cause", ["loss", "leave", "join", "start"])
def test_a_change_of_members_explains_why_a_world_broke(cause: str) -> None:
    breaks = Breaks()
    for _ in range(20):
        breaks.count(ERROR, "broken", 0)
        breaks.count(ERROR, "broken", 0)
        breaks.count(ERROR, cause, 0)


def test_worlds_that_complete_steps_may_break_for_ever() -> None:
    breaks = Breaks()
    for step in range(20):
        breaks.count(ERROR, "broken", step)


def test_who_was_cut_out_of_a_world_is_not_at_fault() -> None:
    breaks = Breaks()
    for _ in range(20):
        breaks.count(None, "broken", 0)


def test_who_has_trained_before_has_more_patience_than_a_newcomer() -> None:
    breaks = Breaks()
    breaks.count(None, "start", 0)
    breaks.count(ERROR, "broken", 7)
    for _ in range(4):
        breaks.count(ERROR, "broken", 7)
    with pytest.raises(BrokenWorldError, match="6 worlds in a row"):
        breaks.count(ERROR, "broken", 7)
