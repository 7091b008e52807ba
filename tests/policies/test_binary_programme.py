"""Small programmes, and a HiGHS that is not believed before it was checked."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from freetrain.guest.guest import Guest
from freetrain.policies.binary_programme import BinaryProgramme, LinearRow, solve_in_guest

_HERE = "tests.policies.test_binary_programme"
LONG_S = 30.0

TWO_OF_THREE = BinaryProgramme((3.0, 2.0, 2.0), (LinearRow({0: 2.0, 1: 1.5, 2: 1.5}, 3.0),))
"""The first alone is worth 3, the other two together 4."""


def test_whole_variables_and_shares_have_their_own_optimum() -> None:
    assert solve_in_guest(TWO_OF_THREE, LONG_S) == ((0.0, 1.0, 1.0), "")
    shares, why = solve_in_guest(BinaryProgramme(TWO_OF_THREE.values, TWO_OF_THREE.rows, integral=False), LONG_S)
    assert why == ""
    assert shares is not None
    assert sum(value * share for value, share in zip(TWO_OF_THREE.values, shares, strict=True)) > 4.0


def test_a_least_sum_is_kept() -> None:
    one_each = BinaryProgramme((-1.0, -2.0), (LinearRow({0: 1.0, 1: 1.0}, 1.0, 1.0),))
    assert solve_in_guest(one_each, LONG_S) == ((1.0, 0.0), "")


@pytest.mark.parametrize(
    ("found", "is_met"),
    [
        ((0.0, 1.0, 1.0), True),
        ((1.0, 1.0, 0.0), False),
        ((0.5, 0.0, 0.0), False),
        ((2.0, 0.0, 0.0), False),
        ((0.0, 1.0), False),
        ((float("nan"), 0.0, 0.0), False),
    ],
)
def test_an_answer_is_held_against_the_programme(found: tuple[float, ...], is_met: bool) -> None:
    assert TWO_OF_THREE.is_met_by(found) is is_met


def test_what_cannot_be_solved_is_said() -> None:
    impossible = BinaryProgramme((1.0,), (LinearRow({0: 1.0}, 5.0, 2.0),))
    found, why = solve_in_guest(impossible, LONG_S)
    assert found is None
    assert "nothing that may be used" in why


def breaks_a_row(programme: BinaryProgramme, *, left_s: Callable[[], float]) -> object:
    return (1.0, 1.0, 1.0), ""


def answers_something_else(programme: BinaryProgramme, *, left_s: Callable[[], float]) -> object:
    return "moonbeams"


def sleeps(programme: BinaryProgramme, *, left_s: Callable[[], float]) -> object:
    time.sleep(600)
    return None


@pytest.fixture
def guest() -> Iterator[Guest]:
    guest = Guest(imports=(_HERE,), patience_s=0.1)
    yield guest
    guest.close()


@pytest.mark.parametrize(
    ("function", "clause"),
    [(breaks_a_row, "nothing that may be used"), (answers_something_else, "no answer"), (sleeps, "was ended")],
)
def test_an_answer_that_is_wrong_or_never_comes_is_not_used(
    guest: Guest, function: Callable[..., object], clause: str
) -> None:
    found, why = solve_in_guest(TWO_OF_THREE, 0.2, guest.asking(f"{_HERE}:{function.__name__}"))
    assert found is None
    assert clause in why
