"""Each sentence that random looks tell of nodes and trainings is held against what was seen and decided."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from freetrain.core.fragment import node_of
from freetrain.core.job import JobState
from freetrain.core.node import NodeState
from freetrain.core.problem import Offer, Problem
from freetrain.core.value import counts_of, total_value
from freetrain.daemon.reports.look_status import status_of
from freetrain.loop.lending_loop import Look
from freetrain.slurm.parsing import expand_nodes
from tests.daemon.conftest import Daemon, StartDaemon
from tests.daemon.fake_slurm import FakeSlurm

CURVES = ("", ",curve=1:100/2:90/4:80", ",curve=1:100/2:190/4:350", ",curve=1:100/3:101", ",weight=7")
LOOKS = int(os.environ.get("TRUTH_LOOKS", "400"))


class Truth:
    """Holds the sentences of one look against it.

    Args:
        look: the look.
    """

    def __init__(self, look: Look) -> None:
        self.look, self.judgement = look, look.judgement
        self.sizes = {id_: len(names) for one in look.decisions for id_, names in one.placement.items()}
        self.requests = self.judgement.facts.request
        self.parts = self.judgement.parts

    def dealt(self, trainer: str) -> tuple[int, int, bool]:
        """Nodes of it and its user's others, how many of them were given, whether rivals got such nodes."""
        wanting = ((some, want.trainer) for some in self.parts.together for one in some for want in one.wants)
        together = next(some for some, wants in wanting if wants == trainer)
        keys = {one.key for one in together}
        own = [name for key in keys for name in self.parts.dealt.parts[key]]
        taken = sum(self.sizes.get(want.trainer, 0) for one in together for want in one.wants)
        eligible = set().union(*(one.eligible for one in together))
        theirs = [name for key, names in self.parts.dealt.parts.items() if key not in keys for name in names]
        return len(own), taken, any(node_of(name) in eligible for name in theirs)

    def one_more_is_worth(self, trainer: str) -> tuple[float, float]:
        """What it is worth with the nodes that it has, and with one more, all free for the whole horizon."""
        request, size = self.requests[trainer].trainer, self.sizes[trainer]
        held = {one.name for one in self.judgement.offers.offered if one.held_by == trainer}
        names = [f"x{number}" for number in range(size + 1)]
        offers = tuple(Offer(n, None, trainer if number < len(held) else None) for number, n in enumerate(names))
        rules = self.judgement.rules
        problem = Problem(
            now_s=self.judgement.now_s, nodes=offers, trainers=(request,), horizon_s=rules.horizon_s,
            objective=rules.objective, changes=rules.changes,
        )  # fmt: skip
        return tuple(total_value(problem, counts_of(problem, {trainer: names[:n]})) for n in (size, size + 1))  # type: ignore[return-value]

    def can_use_no_more(self, trainer: str, most: str) -> bool:
        return self.sizes[trainer] == int(most) == self.requests[trainer].trainer.most_nodes

    def is_not_worth_more(self, trainer: str) -> bool:
        now, more = self.one_more_is_worth(trainer)
        return more <= now + abs(now) * 1e-9

    def has_its_share(self, trainer: str, share: str) -> bool:
        count, taken, _ = self.dealt(trainer)
        return count == int(share) and (taken == count or not self.sizes.get(trainer))

    def has_all_there_are(self, trainer: str, count: str) -> bool:
        return self.dealt(trainer) == (int(count), int(count), False)

    def left_some(self, trainer: str, count: str, left: str) -> bool:
        return self.dealt(trainer)[:2] == (int(count), int(count) - int(left))

    def needs_more_than_its_share(self, trainer: str, least: str, share: str) -> bool:
        return self.dealt(trainer)[0] == int(share) < int(least) == self.requests[trainer].trainer.min_nodes

    def needs_more_than_there_are(self, trainer: str, least: str, idle: str) -> bool:
        return not self.sizes.get(trainer) and int(idle) < int(least) == self.requests[trainer].trainer.min_nodes

    def of_training(self, trainer: str, said: str) -> bool:
        """Whether a sentence on a training is true; a sentence of a kind that is not known here is not."""
        checks = {
            r"it can use no more than (\d+) nodes?": self.can_use_no_more,
            r"one node more would cost it more than it gains within decide\.horizon, .*": self.is_not_worth_more,
            r"its user's share is (\d+) nodes?(?:; others of them are .*|, lent to .*)?": self.has_its_share,
            r"there are no more than (\d+) nodes?(?:; others of them are .*)?": self.has_all_there_are,
            r"of (\d+) nodes? that it could have, (\d+) would add less than the change costs": self.left_some,
            r"needs (\d+) nodes at once; its user's share is (\d+) nodes?(?:, lent to .*)?": (
                self.needs_more_than_its_share
            ),
            r"needs (\d+) nodes at once; (\d+) (?:is|are) idle or lent": self.needs_more_than_there_are,
            r"no idle node that it may use": lambda _: not self.judgement.offers.offered,
            r"no idle nodes: all that it may use are lent to others": lambda one: self.dealt(one)[0] == 0,
            r"starting it now would cost more than it gains within decide\.horizon": (
                lambda one: not self.sizes.get(one)
            ),
        }
        found = ((check, re.fullmatch(pattern, said)) for pattern, check in checks.items())
        return any(check(trainer, *match.groups()) for check, match in found if match)  # type: ignore[operator]

    def of_node(self, name: str, said: str) -> bool:
        """Whether a sentence on a node is true."""
        snapshot = self.judgement.facts.snapshot
        if found := re.fullmatch(r"job (\S+) runs here", said):
            return name in snapshot.job[found[1]].nodes and snapshot.job[found[1]].state.has_nodes
        if found := re.fullmatch(r"Slurm says (\S+)", said):
            return snapshot.node[name].state_text == found[1] and snapshot.node[name].state is not NodeState.IDLE
        if found := re.fullmatch(r"job (\S+) could start here", said):
            return snapshot.job[found[1]].state is JobState.PENDING
        if said in ("is being given back", "its fragment is ending", "its fragment is lost"):
            return any(one.node == name and not one.goes_on for one in self.judgement.facts.fragments)
        if said == "was taken back a moment ago":
            return self.judgement.memory.sightings.resting_until_s.get(name, 0.0) > snapshot.time_s
        return False

    def lies(self) -> Iterator[str]:
        """What was told and is not so."""
        verdicts = self.look.verdicts().items()
        yield from (f"training {id_}: {why}" for id_, (_, why) in verdicts if not self.of_training(id_, why))
        withheld = self.judgement.offers.withheld.items()
        yield from (f"node {name}: {said}" for name, said in withheld if not self.of_node(name, said))


def something_happens(slurm: FakeSlurm, chance: random.Random, arrays: list[str]) -> None:
    running = [one for one in slurm.jobs.values() if one.state is JobState.RUNNING]
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


def lies_of(daemon: Daemon, slurm: FakeSlurm, seed: int, looks: int) -> tuple[list[str], int]:
    """What was told and is not so in a random walk; how many sentences there were."""
    chance, arrays, told = random.Random(seed), list[str](), 0
    for _ in range(looks):
        something_happens(slurm, chance, arrays)
        daemon.cycle(after_s=chance.choice((1.0, 5.0, 5.0, 20.0)))
        assert daemon.loop.last is not None
        truth = Truth(daemon.loop.last)
        told += len(truth.look.verdicts()) + len(truth.judgement.offers.withheld)
        if lies := list(truth.lies()):
            return lies, told
    return [], told


@pytest.mark.parametrize("seed", range(4))
def test_every_sentence_of_a_random_look_is_true(slurm: FakeSlurm, start_daemon: StartDaemon, seed: int) -> None:
    lies, told = lies_of(start_daemon(), slurm, seed, LOOKS // 4)
    assert lies == []
    assert told > LOOKS // 4


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
    look = status_of(daemon.judgement, (), {}, daemon.cluster.fragments, {}, 0.1)
    assert look.waiting[job].startswith(
        f"Job {job} is one of the site's own and waits (Priority). If nothing were"
    )
    (given_back,) = re.findall(r"would start now on (\S+): (\S+) are being given back for it", look.waiting[job])
    leaving = {one.node for one in daemon.cluster.fragments if one.is_leaving}
    assert set(expand_nodes(given_back[1])) <= leaving | set(daemon.judgement.offers.due)
