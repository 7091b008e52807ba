"""The daemon's judge and loop on nodes that jobs share, as their log tells of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from freetrain.core.amounts import Amount
from freetrain.core.needs import Needs
from freetrain.core.node import Node, NodeState
from freetrain.core.place import node_of
from freetrain.core.plan import Lend
from freetrain.core.trainer import KindChoice, Trainer
from freetrain.lending.rules import Rules, Share
from freetrain.loop.cycle import Goal
from freetrain.policies import find_policy
from freetrain.replay.as_daemon.driver import SimulatedCluster
from freetrain.replay.as_daemon.lent import LentNodes, Timing, Wakes
from freetrain.replay.as_daemon.site import LoggedSite, SharedNodes
from freetrain.replay.course import ReplayRecord, ReplaySetup
from freetrain.replay.logs import SiteLog, TaskRequest
from freetrain.replay.study import DaemonSetup, replay_as_daemon
from freetrain.replay.trainer_run import TrainerRun
from tests.replay.as_daemon.test_driver import rules
from tests.replay.logs.build import Write, hour, read, row
from tests.replay.logs.conftest import write as write
from tests.replay.logs.gpu_log import make_gpu_log
from tests.replay.logs.second_by_second import fitting_by_second
from tests.replay.logs.test_shares import machine, with_tres
from tests.replay.test_share_outcome import GPU_TASK, HOURS, SOME, TASK
from tests.seeds import seeds

WOKEN = Timing(poll_s=10.0, wakes=Wakes())
TRAINER = Trainer("a", ((1, 10.0), (100, 1000.0)), scale_up_s=0.0, scale_down_s=0.0, boot_s=8.0)


def in_parts(**keep: Amount) -> Rules:
    found = rules()
    return replace(found, nodes=replace(found.nodes, share=Share.ANY, **keep))


def play(
    log: SiteLog, trainers: Sequence[Trainer], timing: Timing = WOKEN, its_rules: Rules | None = None
) -> ReplayRecord:
    goal = Goal.of(find_policy("greedy"), "throughput")
    how = DaemonSetup(its_rules or in_parts(), goal, timing)
    return replay_as_daemon(log, ReplaySetup(trainers, goal, time.perf_counter), how)


def lent_at(record: ReplayRecord, at_s: float) -> dict[str, int]:
    """Node → how many places were lent then."""
    found: dict[str, int] = {}
    for lease in record.leases:
        if lease.from_s <= at_s < lease.until_s:
            found[node_of(lease.place)] = found.get(node_of(lease.place), 0) + 1
    return found


CPUS = with_tres(
    row("1", submit="01", start="01", end="05", cores="12", list="c1", tres="cpu=12"),
    row("2", submit="02", start="02", end="03", cores="3", list="c1", tres="cpu=3"),
    row("3", start="00", end="23", cores="16", list="c2", tres="cpu=16"),
)


def cpu_log(write: Write, tmp_path: Path, text: str = CPUS, until: float = 6) -> SiteLog:
    return read(write(text), machine=machine(tmp_path), task=TaskRequest(Amount(4)), until_s=hour(until))


def test_parts_beside_jobs_are_lent_as_there_is_room(write: Write, tmp_path: Path) -> None:
    """On c1 fit four tasks, from 01 one, from 02 none, from 03 one, from 05 four again; on c2 never any."""
    record = play(cpu_log(write, tmp_path), [TRAINER])
    lent = [lent_at(record, hour(number) + 60) for number in range(6)]
    assert lent == [{"c1": 4}, {"c1": 1}, {}, {"c1": 1}, {"c1": 1}, {"c1": 4}]
    assert record.site_impact is not None
    assert record.site_impact.starts == 3
    assert record.site_impact.delays_s == (1.0, 1.0), (
        "they came unannounced, and Slurm took back what was in their way"
    )
    assert record.runs[0].evicted_nodes == 3 + 1
    assert record.site_impact.lent_node_s == pytest.approx(
        sum(lease.until_s - lease.from_s for lease in record.leases)
    )


def test_what_the_site_keeps_back_of_each_node_is_not_lent(write: Write, tmp_path: Path) -> None:
    record = play(cpu_log(write, tmp_path), [TRAINER], its_rules=in_parts(keep=Amount(2)))
    lent = [lent_at(record, hour(number) + 60) for number in (0, 1, 3)]
    assert lent == [{"c1": 3}, {"c1": 1}, {}], "what is lent may stay as long as there is room"


def test_a_job_that_is_known_to_start_finds_its_part_free(write: Write, tmp_path: Path) -> None:
    """It waits for one that ends at its limit; what fits beside it stays lent, the rest is given back before."""
    header = with_tres().strip() + "|Timelimit"
    rows = (
        row("1", start="00", end="01", cores="16", list="c1", tres="cpu=16") + "|01:00:00",
        row("2", submit="00", start="01", end="03", cores="8", list="c1", tres="cpu=8") + "|02:00:00",
        row("3", start="00", end="23", cores="10", list="c2", tres="cpu=10") + "|23:00:00",
    )
    record = play(cpu_log(write, tmp_path, "\n".join((header, *rows)) + "\n"), [TRAINER])
    assert record.site_impact is not None
    assert record.site_impact.delays_s == ()
    assert lent_at(record, hour(0.5)) == {"c2": 1}
    assert lent_at(record, hour(2)) == {"c1": 2, "c2": 1}


@pytest.mark.parametrize("timing", [WOKEN, Timing(poll_s=20.0)])
@pytest.mark.parametrize("seed", seeds(1, 8, first=1))
def test_no_node_ever_holds_more_than_it_has(write: Write, seed: int, timing: Timing) -> None:
    text = make_gpu_log(seed, tries=250)
    log = read(write(text), until_s=hour(HOURS), task=TaskRequest(GPU_TASK))
    record = play(log, SOME, timing)
    fits = fitting_by_second(text, int(hour(0)), int(hour(HOURS)), TASK)
    lent = {node: np.zeros(HOURS * 3600, int) for node in fits}
    for lease in record.leases:
        begin, end = (round(at_s - hour(0)) for at_s in (lease.from_s, lease.until_s))
        lent[node_of(lease.place)][begin + 1 : end] += 1
    assert all((lent[node] <= fits[node]).all() for node in fits)
    assert sum(int(each.sum()) for each in lent.values()) > 0.8 * sum(float(fit.sum()) for fit in fits.values())


def test_trainers_get_places_on_nodes_of_their_kinds(write: Write, tmp_path: Path) -> None:
    log = cpu_log(
        write, tmp_path, with_tres(row("3", start="00", end="23", cores="8", list="c2", tres="cpu=8")), 2
    )
    log = replace(log, holes=replace(log.holes, kind_of={"c1": "new", "c2": "old"}))
    trainers = [replace(TRAINER, id=kind, choices=(KindChoice((kind,), 0.5),)) for kind in ("new", "old")]
    record = play(log, trainers)
    on = {lease.trainer: {node_of(each.place) for each in record.leases if each.trainer == lease.trainer}
          for lease in record.leases}  # fmt: skip
    assert on == {"new": {"c1"}, "old": {"c2"}}
    assert {run.trainer.id: run.rate for run in record.runs} == {"new": 0.5 * 40, "old": 0.5 * 20}


def shared(log: SiteLog) -> SharedNodes:
    assert log.logged is not None
    assert log.places is not None
    return SharedNodes(log.holes.node_names, log.logged, log.places)


def test_a_node_is_shown_with_what_is_used_of_it(write: Write, tmp_path: Path) -> None:
    nodes = shared(cpu_log(write, tmp_path))
    busy = Node("c1", NodeState.BUSY, "ALLOCATED")
    assert nodes.shown(busy, Amount()).state is NodeState.DOWN, "nobody's job is there, so it is out of service"
    nodes.begin(7, ["c1"], Amount(10))
    lent = Amount(4)
    assert (nodes.left_of("c1").cpus, nodes.shown(busy, lent).used) == (6, Amount(14))
    assert nodes.shown(busy, lent).total == Amount(16, 0, (("gpu", 4),)) == nodes.total["c1"]
    nodes.begin(8, ["c1"], None)
    assert nodes.left_of("c1").cpus == 0, "who knows what it holds"
    nodes.end(8, ["c1"])
    nodes.end(7, ["c1"])
    assert (nodes.left_of("c1").cpus, nodes.shown(busy, Amount()).used) == (16, Amount())
    assert nodes.needs_of_task(Needs("new"), TRAINER) == Needs("new", cpus=4, in_part=True, is_whole=False)


def test_a_job_that_holds_an_unknown_amount_holds_all_of_its_node(write: Write, tmp_path: Path) -> None:
    text = with_tres(
        row("1", start="01", end="02", cores="2", list="c1", tres="cpu=2,mem=3G"),
        row("2", start="03", end="04", cores="", list="c1", tres=""),
    )
    nodes = shared(cpu_log(write, tmp_path, text))
    assert (nodes.asks(0), nodes.asks(1)) == (Amount(2, 3072), None)


def test_slurm_starts_no_more_than_there_is_room_for(write: Write, tmp_path: Path) -> None:
    log = cpu_log(write, tmp_path)
    nodes = shared(log)
    site = LoggedSite(log.holes, log.logged, "freetrain", nodes)
    cluster = SimulatedCluster(site, in_parts(), WOKEN, "throughput", hour(0), shared=nodes)
    cluster.admit(TRAINER)
    cluster.now_s = hour(1)
    cluster.advance_site()
    cluster.act(Lend("a", ("c1#+1", "c1#+2"), (6000.0, 6000.0)), None)
    cluster.now_s += 5
    cluster.advance_fragments()
    cluster.start_fragments()
    assert [fragment.started_s for fragment in cluster.lent.open] == [hour(1) + 5, None]
    assert cluster.observe().snapshot.node["c1"].used == Amount(12 + 4)


def test_those_that_leave_make_way_first_then_the_youngest() -> None:
    run = TrainerRun(TRAINER, np.arange(101.0), 0.0)
    lent = LentNodes({"a": run}, Timing(launch_s=0.0, boot_s=1.0, leave_s=3.0, evict_s=1.0), {"a": Amount(4)})
    for at_s in (0.0, 1.0, 2.0):
        lent.lend("a", ["n#+1"], [600.0], at_s)
        lent.advance(at_s)
        lent.start(lambda fragment: True, {}, at_s)
    assert [fragment.place for fragment in lent.open] == ["n#1", "n#2", "n#3"]
    lent.release(["n#1"], None, 10.0)
    assert lent.make_room([{"n": Amount(14)}], 10.0) == [0.0]
    assert lent.make_room([{"n": Amount(11)}], 10.5) == [2.5], "it leaves until 13"
    assert lent.make_room([{"n": Amount(4)}], 11.0) == [2.0], "the youngest one is gone at 12"
    lent.advance(13.0)
    assert [fragment.place for fragment in lent.open] == ["n#2"]
    assert [(lease.place, lease.until_s) for lease in lent.times] == [("n#3", 11.0), ("n#1", 10.5)]
