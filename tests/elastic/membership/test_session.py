from __future__ import annotations

import signal
from pathlib import Path

import pytest

from freetrain.elastic.errors import BrokenWorldError
from freetrain.elastic.membership.session import BrokenWorlds
from tests.elastic.harness import ended_script

ERROR = RuntimeError("no route")


def worlds_to_the_end(breaks: BrokenWorlds, step: int) -> int:
    """How many more worlds may break at this step, with the one that is too many."""
    for count in range(1, 20):
        try:
            breaks.count(ERROR, "broken", step)
        except BrokenWorldError:
            return count
    return 0


def test_the_third_world_in_a_row_that_breaks_with_nobody_missing_ends_a_newcomer() -> None:
    breaks = BrokenWorlds()
    breaks.count(None, "start", 0)
    breaks.count(ERROR, "broken", 0)
    breaks.count(ERROR, "broken", 0)
    with pytest.raises(BrokenWorldError, match="3 worlds in a row broke although no member was missing") as raised:
        breaks.count(ERROR, "broken", 0)
    assert raised.value.__cause__ is ERROR


@pytest.mark.parametrize("cause", ["loss", "leave", "join", "start"])
def test_a_change_of_members_explains_why_a_world_broke(cause: str) -> None:
    breaks = BrokenWorlds()
    for _ in range(20):
        breaks.count(ERROR, "broken", 0)
        breaks.count(ERROR, "broken", 0)
        breaks.count(ERROR, cause, 0)
    assert worlds_to_the_end(breaks, 0) == 3


def test_worlds_that_complete_steps_may_break_for_ever() -> None:
    breaks = BrokenWorlds()
    for step in range(20):
        breaks.count(ERROR, "broken", step)
    assert worlds_to_the_end(breaks, 20) == 6


def test_who_was_cut_out_of_a_world_is_not_at_fault() -> None:
    breaks = BrokenWorlds()
    for _ in range(20):
        breaks.count(None, "broken", 0)
    assert worlds_to_the_end(breaks, 0) == 3


def test_who_has_trained_before_has_more_patience_than_a_newcomer() -> None:
    breaks = BrokenWorlds()
    breaks.count(None, "start", 0)
    breaks.count(ERROR, "broken", 7)
    for _ in range(4):
        breaks.count(ERROR, "broken", 7)
    with pytest.raises(BrokenWorldError, match="6 worlds in a row"):
        breaks.count(ERROR, "broken", 7)


def end_on(name: str, folder: Path, exits: bool = False, agent: str = "vm-1") -> tuple[int, list[str]]:
    """The status of a worker that sends itself this signal, and the lines that it prints."""
    ended = ended_script("signalled.py", name, *["exits"] * exits, in_folder=folder, FREETRAIN_AGENT=agent)
    return ended.wait(), ended.stdout.splitlines()


@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1", "SIGUSR2"])
def test_a_worker_goes_on_and_what_it_forked_does_not(name: str, tmp_path: Path) -> None:
    assert end_on(name, tmp_path) == (0, ["goes on", str(signal.Signals[name].value)])


def test_without_an_agent_a_worker_ends_as_any_process(tmp_path: Path) -> None:
    assert end_on("SIGTERM", tmp_path, agent="") == (-signal.SIGTERM, [])


def test_what_the_script_does_itself_on_a_signal_stays(tmp_path: Path) -> None:
    assert end_on("SIGTERM", tmp_path, exits=True) == (7, [])
