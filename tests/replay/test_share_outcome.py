"""What a replay lends of nodes that jobs use in part, beside what is counted second by second."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from freetrain.core.amounts import Amount
from freetrain.core.decision import Placement, place
from freetrain.core.place import node_of
from freetrain.core.power import PowerDraw
from freetrain.core.problem import Counts, Problem
from freetrain.core.trainer import Trainer
from freetrain.loop.cycle import Goal
from freetrain.policies import find_policy
from freetrain.replay.course import ReplaySetup
from freetrain.replay.foresight import Foresight, Knowledge
from freetrain.replay.logs import SiteLog, TaskRequest
from freetrain.replay.nodes import watts_of
from freetrain.replay.outcome import lent_of, share_outcome, share_rows
from freetrain.replay.study import Study, study
from tests.replay.logs.build import Write, hour, read, row
from tests.replay.logs.conftest import write as write
from tests.replay.logs.gpu_log import make_gpu_log
from tests.replay.logs.second_by_second import fitting_by_second
from tests.replay.logs.test_shares import machine, with_tres

HOURS = 6
TASK = {"cpu": 4, "memory": 16 * 2.0**30, "gpu": 1}
GPU_TASK = Amount(4, 16 * 1024, (("gpu", 1),))
ALL_OF_IT = Trainer("all", ((1, 1.0), (1000, 1000.0)), independent=True, scale_up_s=0.0, scale_down_s=0.0)
SOME = tuple(Trainer(f"t{number}", ((1, 10.0), (5, 35.0)), boot_s=20.0) for number in range(30))


@dataclass(frozen=True)
class Played:
    """A made log that was replayed in parts.

    Attributes:
        log: what was read of it.
        done: what came of it.
        fits: node → how many tasks fit in each second, counted from the text alone.
    """

    log: SiteLog
    done: Study
    fits: dict[str, np.ndarray]

    def lent(self, node: str) -> np.ndarray:
        """How many tasks trainers had on a node in each second; all times are whole seconds."""
        count = np.zeros(HOURS * 3600, int)
        for lease in self.done.record.leases:
            if node_of(lease.place) == node:
                begin, end = (round(at_s - hour(0)) for at_s in (lease.from_s, lease.until_s))
                count[begin:end] += 1
        return count


class LastNodes:
    """Lends the nodes that came last: of each node the places that leave first."""

    def place(self, problem: Problem, counts: Counts) -> Placement:
        return place(problem, counts, lambda there, count, beside: there[len(there) - count :])


BRIEF = tuple(
    replace(trainer, id=f"{trainer.id}/{again}", target_samples=2e4) for trainer in SOME for again in range(9)
)


def play(
    log: SiteLog, trainers: Sequence[Trainer], knows: Knowledge = Knowledge.NONE, max_running: int = 20
) -> Study:
    assert log.places is not None
    goal = Goal.of(find_policy("greedy"), "throughput", LastNodes())
    foresight = Foresight(120.0, knows)
    return study(log.places.holes, ReplaySetup(trainers, goal, time.perf_counter), foresight, max_running)


def played(
    write: Write, seed: int, trainers: Sequence[Trainer], knows: Knowledge = Knowledge.NONE, max_running: int = 20
) -> Played:
    text = make_gpu_log(seed, tries=250)
    log = read(write(text), until_s=hour(HOURS), task=TaskRequest(GPU_TASK))
    done = play(log, trainers, knows, max_running)
    return Played(log, done, fitting_by_second(text, int(hour(0)), int(hour(HOURS)), TASK))


@pytest.mark.parametrize("seed", range(1, 6))
def test_who_takes_all_that_there_is_has_what_is_counted_second_by_second(write: Write, seed: int) -> None:
    done = played(write, seed, [ALL_OF_IT])
    for node, fits in done.fits.items():
        assert (done.lent(node) == fits).all(), node
    shrinks = sum(int(-np.diff(fits).clip(max=0).sum()) for fits in done.fits.values())
    assert done.done.outcome.evictions == shrinks > 50


@pytest.mark.parametrize("knows", [Knowledge.NONE, Knowledge.LEARNED, Knowledge.PERFECT])
@pytest.mark.parametrize("seed", range(1, 6))
def test_no_node_ever_holds_more_than_it_has(write: Write, seed: int, knows: Knowledge) -> None:
    done = played(write, seed, SOME, knows)
    lent = {node: done.lent(node) for node in done.fits}
    assert all((lent[node] <= fits).all() for node, fits in done.fits.items())
    assert sum(int(each.sum()) for each in lent.values()) > 3600 * 20


@pytest.mark.parametrize("seed", range(1, 6))
def test_only_what_finds_no_room_on_its_node_is_evicted(write: Write, seed: int) -> None:
    """A job that comes takes nothing back while as much of the node lies idle."""
    done = played(write, seed, BRIEF, max_running=5)
    evicted = sum(int((done.lent(node)[:-1] - fits[1:]).clip(min=0).sum()) for node, fits in done.fits.items())
    leaving = sum(int(-np.diff(fits).clip(max=0).sum()) for fits in done.fits.values())
    assert done.done.outcome.evictions == evicted
    assert 0 < evicted < leaving - 50


def test_what_is_lent_and_of_use_adds_up(write: Write) -> None:
    done = played(write, 3, SOME)
    lent = lent_of(done.done.record, done.log)
    all_nodes = share_outcome(done.log, lent)
    assert all_nodes is not None
    out = done.done.outcome
    assert (all_nodes.partly_lent_task_hours or 0) + (all_nodes.idle_nodes_lent_task_hours or 0) == pytest.approx(
        out.lent_node_hours
    )
    assert (all_nodes.partly_useful_task_hours or 0) + (
        all_nodes.idle_nodes_useful_task_hours or 0
    ) == pytest.approx(out.useful_node_hours)
    assert out.useful_node_hours < out.lent_node_hours
    by_type = [share_row.outcome for share_row in share_rows(done.log, lent) if share_row.what == "GPU"]
    assert sum(outcome.partly_lent_task_hours or 0 for outcome in by_type) == pytest.approx(
        all_nodes.partly_lent_task_hours
    )
    assert all(
        0 < (outcome.partly_lent_task_hours or 0) <= (outcome.partly_fitting_task_hours or 0) + 1e-9
        for outcome in by_type
    )


LOG = with_tres(
    row("1", start="01", end="03", cores="12", list="c1", tres="cpu=12"),
    row("2", start="02", end="04", cores="2", list="c1", tres="cpu=2"),
    row("3", start="00", end="23", cores="16", list="c2", tres="cpu=16"),
)


def test_a_small_log_is_lent_as_reckoned_by_hand(write: Write, tmp_path: Path) -> None:
    """On c1 fit four tasks, from 01 one, from 02 none, from 03 three, from 04 four again."""
    log = read(write(LOG), machine=machine(tmp_path), task=TaskRequest(Amount(4)), until_s=hour(6))
    free = Trainer("a", ((1, 1.0), (2, 2.0)), scale_up_s=0.0, scale_down_s=0.0, forced_loss_s=600.0)
    done = play(log, [free])
    all_nodes = share_outcome(log, lent_of(done.record, log))
    assert all_nodes is not None
    assert all_nodes.partly_fitting_task_hours == 1 + 3
    assert all_nodes.partly_lent_task_hours == 1 + 2
    assert (all_nodes.idle_nodes_fitting_task_hours, all_nodes.idle_nodes_lent_task_hours) == (3 * 4, 3 * 2)
    (run,) = done.record.runs
    assert run.evicted_nodes == 2, "one of two at 01, the other one at 02"
    assert run.lost_node_s == 600 * 2 + 600
    assert all_nodes.partly_useful_task_hours == pytest.approx(3 * (1 - 0.5 / 9))


def test_a_place_takes_its_part_of_what_the_node_takes(write: Write, tmp_path: Path) -> None:
    log = read(write(LOG), machine=machine(tmp_path), task=TaskRequest(Amount(4)), until_s=hour(6))
    assert log.places is not None
    assert watts_of(log.places.holes, PowerDraw(400.0)) == {f"c1#+{number}": 100.0 for number in (1, 2, 3, 4)}
    assert set(watts_of(log.holes, PowerDraw(400.0)).values()) == {400.0}
