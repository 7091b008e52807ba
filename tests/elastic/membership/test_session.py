from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from freetrain.elastic.errors import BrokenWorldError
from freetrain.elastic.membership.session import BrokenWorlds

ERROR = RuntimeError("no route")
SCRIPT = """
import os, signal, sys, time
from freetrain.elastic.membership.session import leave_signals_to_agent
{before}
leave_signals_to_agent()
os.kill(os.getpid(), signal.{name})
print("goes on", flush=True)
reading, writing = os.pipe()
child = os.fork()
if not child:
    os.write(writing, b"here")
    while True:  # a signal just before one long sleep would be seen only after it
        time.sleep(0.05)
os.read(reading, 4)
os.kill(child, signal.{name})
print(-os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


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


def test_worlds_that_complete_steps_may_break_for_ever() -> None:
    breaks = BrokenWorlds()
    for step in range(20):
        breaks.count(ERROR, "broken", step)


def test_who_was_cut_out_of_a_world_is_not_at_fault() -> None:
    breaks = BrokenWorlds()
    for _ in range(20):
        breaks.count(None, "broken", 0)


def test_who_has_trained_before_has_more_patience_than_a_newcomer() -> None:
    breaks = BrokenWorlds()
    breaks.count(None, "start", 0)
    breaks.count(ERROR, "broken", 7)
    for _ in range(4):
        breaks.count(ERROR, "broken", 7)
    with pytest.raises(BrokenWorldError, match="6 worlds in a row"):
        breaks.count(ERROR, "broken", 7)


def said(name: str, before: str = "", agent: str = "vm-1") -> tuple[int, list[str]]:
    """How a worker ended, and what it said."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(name=name, before=before)],
        env=os.environ | {"FREETRAIN_AGENT": agent}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    return done.returncode, done.stdout.splitlines()


@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1", "SIGUSR2"])
def test_a_worker_goes_on_and_what_it_forked_does_not(name: str) -> None:
    assert said(name) == (0, ["goes on", str(signal.Signals[name].value)])


def test_without_an_agent_a_worker_ends_as_any_process() -> None:
    assert said("SIGTERM", agent="") == (-signal.SIGTERM, [])


def test_what_the_script_does_itself_on_a_signal_stays() -> None:
    before = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))"
    assert said("SIGTERM", before) == (7, [])
