"""Truth: each sentence that a look has on nodes and trainings, held against what was seen and decided."""

from __future__ import annotations

import re
from collections.abc import Iterator

from freetrain.core.job import JobState
from freetrain.core.node import NodeState
from freetrain.core.place import Place, node_of
from freetrain.core.problem import Problem
from freetrain.core.value import counts_of, total_value
from freetrain.lending.hole_ends import first_in_line
from freetrain.loop.lending_loop import Look


class Truth:
    """Holds the sentences of one look against it.

    Args:
        look: the look.
    """

    def __init__(self, look: Look) -> None:
        self.look, self.judgement = look, look.judgement
        self.sizes = {id_: len(names) for decision in look.decisions for id_, names in decision.placement.items()}
        self.requests = self.judgement.facts.request
        self.allotment = self.judgement.allotment

    def dealt(self, trainer: str) -> tuple[int, int, bool]:
        """Nodes of it and its user's others, how many of them were given, whether rivals got such nodes."""
        wanting = (
            (some, want.trainer)
            for some in self.allotment.together
            for claimant in some
            for want in claimant.wants
        )
        together = next(some for some, wants in wanting if wants == trainer)
        keys = {claimant.key for claimant in together}
        own = [name for key in keys for name in self.allotment.dealt.places[key]]
        taken = sum(self.sizes.get(want.trainer, 0) for claimant in together for want in claimant.wants)
        eligible = set().union(*(claimant.eligible for claimant in together))
        theirs = [name for key, names in self.allotment.dealt.places.items() if key not in keys for name in names]
        return len(own), taken, any(node_of(name) in eligible for name in theirs)

    def one_more_is_worth(self, trainer: str) -> tuple[float, float]:
        """What it is worth with the nodes that it has, and with one more, all free for the whole horizon."""
        request, size = self.requests[trainer].trainer, self.sizes[trainer]
        held = {place.name for place in self.judgement.offers.offered if place.holder == trainer}
        names = [f"x{number}" for number in range(size + 1)]
        offers = tuple(Place(n, None, trainer if number < len(held) else None) for number, n in enumerate(names))
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

    def of_training(self, trainer: str, why: str) -> bool:
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
            r"there are (\d+) nodes?, lent to .*": lambda one, count: (
                self.dealt(one)[0] == int(count) and not self.sizes.get(one)
            ),
            r"needs (\d+) nodes at once; there are (\d+) nodes?(?:, lent to .*)?": self.needs_more_than_its_share,
            r"(\d+) trainings run before it \(lend\.max_running\)": lambda one, count: (
                one not in {request.id for request in self.judgement.selection.competing}
                and len({request.submission_id for request in self.judgement.selection.competing}) == int(count)
            ),
        }
        found = ((check, re.fullmatch(pattern, why)) for pattern, check in checks.items())
        return any(check(trainer, *match.groups()) for check, match in found if match)  # type: ignore[operator]

    def hole_ends_s(self, name: str) -> list[float]:
        """When somebody will want a node, as the shadow schedule and Slurm's plan have it, UTC epoch seconds."""
        snapshot = self.judgement.facts.snapshot
        planned = (job for job in snapshot.jobs if name in job.planned_nodes and job.start_s is not None)
        return [
            *(plan.start_s for plan in self.judgement.shadow.plans if name in plan.nodes),
            *(job.start_s or 0.0 for job in planned),
            *(reserved.start_s for reserved in snapshot.reservations if name in reserved.nodes),
        ]

    def of_node(self, name: str, why: str) -> bool:
        """Whether a sentence on a node, or on a part of it, is true; one of an unknown kind is not."""
        snapshot, rules = self.judgement.facts.snapshot, self.judgement.rules.nodes
        seen, node, now_s = self.judgement.memory.sightings, node_of(name), self.judgement.now_s
        left_s = [end_s - rules.margin_s - now_s for end_s in self.hole_ends_s(node)]
        first = {plan.job: plan for plan in first_in_line(self.judgement.shadow, snapshot).values()}
        checks = {
            r"job (\S+) runs here": lambda job: (
                node in snapshot.job[job].nodes and snapshot.job[job].state.has_nodes
            ),
            r"Slurm says (\S+)": lambda text: (
                snapshot.node[node].state_text == text
                and (snapshot.node[node].state is not NodeState.IDLE or snapshot.node[node].is_planned)
            ),
            r"job (\S+) could start here": lambda job: snapshot.job[job].state is JobState.PENDING,
            r"job (\S+) is to start here": lambda job: (
                snapshot.job[job].state is JobState.PENDING and min(left_s) <= 1e-6
            ),
            r"job (\S+) is next to start here": lambda job: node in first[job].nodes,
            r"its hole ends in (\d+) s": lambda seconds: (
                int(seconds) <= rules.shortest_hole_s
                and any(abs(each_s - int(seconds)) <= 0.5 for each_s in left_s)
            ),
            r"(?:is being given back|its fragment is ending|its fragment is lost)": lambda: any(
                fragment.node == node and not fragment.goes_on for fragment in self.judgement.facts.fragments
            ),
            r"was taken back a moment ago": lambda: seen.resting_until_s.get(node, 0.0) > now_s,
            r"idle for less than (\d+) s": lambda seconds: (
                now_s - seen.idle_since_s.get(node, now_s) < float(seconds) == round(rules.idle_for_s)
            ),
            r"jobs have all of it": lambda: (
                self.judgement.rooms is not None
                and (node not in self.judgement.rooms or not self.judgement.rooms[node].free.cpus)
            ),
            r"trainer (\S+) does not compete for nodes": lambda id_: (
                id_ not in {request.id for request in self.judgement.selection.competing}
            ),
        }
        found = ((check, re.fullmatch(pattern, why)) for pattern, check in checks.items())
        return any(check(*match.groups()) for check, match in found if match)  # type: ignore[operator]

    @property
    def sentences(self) -> int:
        """How many there are."""
        offers = self.judgement.offers
        return len(self.look.verdicts()) + len(offers.withheld) + len(offers.due)

    def untrue(self) -> Iterator[str]:
        """Those that do not hold."""
        verdicts = self.look.verdicts().items()
        yield from (f"training {id_}: {why}" for id_, (_, why) in verdicts if not self.of_training(id_, why))
        reasons = {**self.judgement.offers.withheld, **self.judgement.offers.due}.items()
        yield from (f"node {name}: {why}" for name, why in reasons if not self.of_node(name, why))
