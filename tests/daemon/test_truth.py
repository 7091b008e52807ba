"""Each sentence that random looks tell of nodes and trainings is held against what was seen and decided."""

from __future__ import annotations

import os
import random
import re
from dataclasses import replace

import pytest

from freetrain.core.job import JobState
from freetrain.core.node import NodeState
from freetrain.daemon.reports.look_status import status_of
from freetrain.slurm.parsing import expand_nodes
from tests.daemon.conftest import Daemon, StartDaemon
from tests.daemon.fake_slurm import FakeSlurm
from tests.truth import Truth

CURVES = ("", ",curve=1:100/2:90/4:80", ",curve=1:100/2:190/4:350", ",curve=1:100/3:101", ",weight=7")
LOOKS = int(os.environ.get("TRUTH_LOOKS", "400"))


def something_happens(slurm: FakeSlurm, chance: random.Random, arrays: list[str]) -> None:
    running = [job for job in slurm.jobs.values() if job.state is JobState.RUNNING]
    match chance.randrange(7):
        case 0 if len(arrays) < 12:
            least = chance.choice((1, 1, 1, 2, 4))
            tag = f"freetrain:min={least},max={chance.randint(least, 8)}{chance.choice(CURVES)}"
            arrays.append(slurm.submit_array(tag, tasks=8, user=chance.choice("abc")))
        case 1:
            slurm.submit(nodes=chance.randint(1, 4))
        case 2 if running:
            job = chance.choice(running)
            if not slurm.queue.has(job):
                slurm.finish(job.id)
        case 3 if arrays:
            slurm.perform(("scancel", arrays.pop(chance.randrange(len(arrays)))))
        case 4:
            name = chance.choice(list(slurm.nodes))
            is_down = slurm.nodes[name].state is NodeState.DOWN
            state, said = (NodeState.IDLE, "IDLE") if is_down else (NodeState.DOWN, "DOWN")
            if name not in {node for job in running for node in job.nodes}:
                slurm.nodes[name] = replace(slurm.nodes[name], state=state, state_text=said, may_be_lent=is_down)
        case 5:
            slurm.advance(chance.uniform(30.0, 200.0))


def untrue_of(daemon: Daemon, slurm: FakeSlurm, seed: int, looks: int) -> tuple[list[str], int]:
    """Sentences of a random walk that do not hold; how many there were."""
    chance, arrays, count = random.Random(seed), list[str](), 0
    for _ in range(looks):
        something_happens(slurm, chance, arrays)
        daemon.cycle(after_s=chance.choice((1.0, 5.0, 5.0, 20.0)))
        assert daemon.loop.last is not None
        truth = Truth(daemon.loop.last)
        count += truth.sentences
        if untrue := list(truth.untrue()):
            return untrue, count
    return [], count


@pytest.mark.parametrize("seed", range(4))
def test_every_sentence_of_a_random_look_is_true(slurm: FakeSlurm, start_daemon: StartDaemon, seed: int) -> None:
    untrue, count = untrue_of(start_daemon(), slurm, seed, LOOKS // 4)
    assert untrue == []
    assert count > LOOKS // 4


def test_a_waiting_job_of_the_sites_is_explained_by_the_shadow_schedule(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    slurm.submit_array("freetrain:min=1", tasks=8)
    daemon = start_daemon()
    daemon.cycle()
    daemon.cycle()
    slurm.is_between_cycles = True
    job = slurm.submit(nodes=2)
    daemon.cycle()
    look = status_of(daemon.judgement, (), {}, daemon.cluster.books.open, 0.1)
    assert look.waiting[job].startswith(
        f"Job {job} is one of the site's own and waits (Priority). If nothing were"
    )
    (given_back,) = re.findall(r"would start now on (\S+): (\S+) are being given back for it", look.waiting[job])
    leaving = {fragment.node for fragment in daemon.cluster.books.open if fragment.is_leaving}
    assert set(expand_nodes(given_back[1])) <= leaving | set(daemon.judgement.offers.due)
