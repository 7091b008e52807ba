"""Whatever a finisher does, new parts get at least what they ask for, and together no more than there is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from freetrain.core.amounts import Amount
from freetrain.core.data_wait import NewPart, SharedNode
from freetrain.loop.deciding import Finished, finish

ASKS = Amount(4, 800, (("gpu", 1),))
PARTS = (NewPart("n1#+1", "a", ASKS, 0.5), NewPart("n1#+2", "b", ASKS, 0.0))
NODE = SharedNode("n1", Amount(10, 1000), 2, 1, PARTS)


class Giving:
    """Gives this, or fails with it."""

    def __init__(self, given: Any) -> None:
        self._given = given

    def finish(self, node: SharedNode) -> Mapping[str, Amount]:
        if isinstance(self._given, BaseException):
            raise self._given
        given: Mapping[str, Amount] = self._given
        return given


def more(cpus: int = 0, memory_mb: int = 0) -> Amount:
    return replace(ASKS, cpus=4 + cpus, memory_mb=800 + memory_mb)


def test_what_may_be_given_is_given_and_said() -> None:
    assert finish(Giving({"n1#+1": more(10, 1000)}), [NODE]) == Finished(
        {"n1#+1": more(10, 1000)},
        {"a": ("a gets 1 × gpu, 14 CPUs, 1800 MB on n1; it asks for 1 × gpu, 4 CPUs, 800 MB.",)},
    )
    assert finish(Giving({}), [NODE]) == Finished()


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (
            {"n1#+1": more(6), "n1#+2": more(5)},
            "11 CPUs and 0 MB are more than the 10 CPUs, 1000 MB",
        ),
        ({"n1#+1": more(0, 1001)}, "0 CPUs and 1001 MB are more than"),
        ({"n1#+1": more(-1)}, "n1#+1 asks for 1 × gpu, 4 CPUs, 800 MB and gets 1 × gpu, 3 CPUs, 800 MB"),
        ({"n1#+1": Amount(4, 800, (("gpu", 2),))}, "n1#+1 asks for 1 × gpu, 4 CPUs, 800 MB and gets 2 × gpu"),
        ({"n1#+3": more(1)}, "n1#+3 is no new part"),
        (None, "the finisher Giving failed, so new parts of n1 get what they ask for: TypeError"),
        ({"n1#+1": 3}, "the finisher Giving failed, so new parts of n1 get what they ask for: AttributeError"),
        (SystemExit("no licence"), "no licence"),
    ],
)
def test_what_may_not_be_given_is_not_given_and_everybody_on_the_node_is_told(given: Any, why: str) -> None:
    other = SharedNode("n2", Amount(1, 0), 1, 1, (NewPart("n2#+1", "c", ASKS, 0.5),))
    finished = finish(Giving(given), [NODE])
    assert finished.amounts == {}
    assert set(finished.notes) == {"a", "b"}
    assert all(why in note for notes in finished.notes.values() for note in notes)
    assert finish(Giving({}), [other]) == Finished()
