"""The rig, with trainings that are no trainings: the first node stamps steps of a world of one for ever."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")

from benchmarks.elastic.events import FELL_APART, NOT_STARTED, Conditions, Event, measure
from benchmarks.elastic.job import HUNG, JOB_LOST
from benchmarks.elastic.processes import Node, descendants
from benchmarks.elastic.systems import Place, System

CONDITIONS = Conditions(settle_steps=3, timeout_s=12.0)
STAMPING = """
import time
from benchmarks.elastic.scripts.stamps import Stamps
stamps, step = Stamps(), 0
while True:
    step += 1
    stamps.begin()
    time.sleep(0.01)
    stamps.end()
    stamps.write(step, 1)
"""


def alone(place: Place) -> list[str]:
    return [sys.executable, "-c", STAMPING if place.first else "import time; time.sleep(60)"]


def test_a_change_that_does_not_come_is_hung_and_the_next_event_has_a_training_of_its_own() -> None:
    system = System("alone", alone, first_holds_store=True)
    grow, end = Event("grow 1→2", 1, 2, "join"), Event("end", 1, 0, "kill store")
    hung, lost = measure(system, (grow, end), 1, CONDITIONS)
    assert (hung.event, hung.failure, hung.change) == ("grow 1→2", HUNG, None)
    assert set(hung.last_words) == {"agent-0", "agent-1"}
    assert (lost.event, lost.failure) == ("end", JOB_LOST)


def test_an_event_that_finds_nobody_to_happen_to_is_a_failure() -> None:
    system = System("alone", alone)
    (outcome,) = measure(system, (Event("leave 1→0", 1, 0, "leave"),), 1, CONDITIONS)
    assert outcome.failure == FELL_APART


def test_a_training_that_does_not_start_is_told_for_every_event() -> None:
    system = System("dead", lambda place: [sys.executable, "-c", "pass"])
    outcomes = list(measure(system, (Event("grow", 2, 3, "join"),), 4, CONDITIONS))
    assert [outcome.failure for outcome in outcomes] == [NOT_STARTED] * 4


def test_a_killed_node_takes_along_what_it_started_in_other_sessions(tmp_path: Path) -> None:
    node = Node(["bash", "-c", "setsid sleep 60 & wait"], {}, tmp_path / "log")
    until_s = time.monotonic() + 60
    while not (started := descendants(node._agent.pid)) and time.monotonic() < until_s:
        time.sleep(0.01)
    assert node.hosts(started[0])
    node.kill()
    assert not node.runs
    assert not any(runs(pid) for pid in started)


def test_nothing_survives_not_even_orphans() -> None:
    script = """
import subprocess
from benchmarks.elastic.processes import no_survivors
with no_survivors():
    orphan = "setsid sleep 60 >/dev/null 2>&1 & echo $!"
    print(subprocess.run(["bash", "-c", orphan], capture_output=True, text=True).stdout)
    raise RuntimeError
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "RuntimeError" in done.stderr
    assert not runs(int(done.stdout))


def runs(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"
