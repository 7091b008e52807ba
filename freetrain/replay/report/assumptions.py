"""What the figures rest on: who decides, what changes cost, how long things take, and what limits there are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from freetrain.core.trainer import Trainer
from freetrain.replay.study import AsDaemon
from freetrain.showing.words import brief_duration, count, number


@dataclass(frozen=True, slots=True)
class Setting:
    """How the log was replayed, as far as the figures of the replay do not tell it.

    Attributes:
        policy: who decides.
        objective: name of what is maximised.
        horizon_s: how far ahead value is counted; 0: as long as idle nodes are expected to stay.
        poll_s: how often idle nodes were looked for in the replay of what the holes allow; 0: seen at once.
        trainers: where they come from.
        max_running: most trainers at once.
        published_losses: evictions are charged whole.
        foresight: what is known of the ends of holes: none, learned, plan, or perfect.
    """

    policy: str
    objective: str
    horizon_s: float
    poll_s: float
    trainers: str
    max_running: int
    published_losses: bool = False
    foresight: str = "none"


_FORESIGHT = {
    "learned": "nodes are expected to stay as those of their ages did before",
    "plan": "the same, and it is known when waiting jobs are planned to start there",
    "perfect": "as the holes allow the ends of holes are known, as nobody can know them",
}


@dataclass(frozen=True, slots=True)
class Assumption:
    """One of them: its name, its value, and what that means."""

    name: str
    value: str
    meaning: str = ""


def assumptions(setting: Setting, trainers: Sequence[Trainer], daemon: AsDaemon | None) -> tuple[Assumption, ...]:
    """All of them, in the order to be shown.

    Args:
        setting: how the log was replayed.
        trainers: who came in.
        daemon: how the daemon would have gone; None: it was not asked.
    """
    return (*_deciding(setting, trainers), *_costs(setting, trainers, daemon), *_pace(setting, trainers, daemon))


def _deciding(setting: Setting, trainers: Sequence[Trainer]) -> Iterator[Assumption]:
    yield Assumption("who decides", setting.policy, "the policy")
    yield Assumption("what is maximised", setting.objective, "the objective, in whose unit work is counted")
    ahead = _seconds([setting.horizon_s]) if setting.horizon_s else "learned"
    yield Assumption("looks ahead", ahead, "" if setting.horizon_s else "as long as idle nodes have stayed so far")
    if setting.foresight != "none":
        yield Assumption(
            "foresight",
            setting.foresight,
            _FORESIGHT[setting.foresight],
        )
    yield Assumption("trainers", setting.trainers)
    sizes = [one.min_nodes for one in trainers], [one.most_nodes for one in trainers]
    each = f"of {number(min(sizes[0]))} to {count(max(sizes[1]), 'node')} each" if trainers else ""
    yield Assumption("at once", f"at most {count(setting.max_running, 'trainer')}", each)


def _costs(setting: Setting, trainers: Sequence[Trainer], daemon: AsDaemon | None) -> Iterator[Assumption]:
    if not trainers:
        return
    of_all = "training lost each time, by the trainer that changes"
    yield Assumption("growing costs", _seconds(one.scale_up_s for one in trainers), of_all)
    yield Assumption("shrinking costs", _seconds(one.scale_down_s for one in trainers))
    at_most = "" if setting.published_losses else ", but no more than was trained since its last change"
    yield Assumption(
        "losing nodes to the site costs", _seconds(one.eviction_s for one in trainers), f"each time{at_most}"
    )
    starting_s = [one.start_s for one in trainers]
    booting = "beside the boot, see below" if daemon is not None else "" if any(starting_s) else "--start sets it"
    yield Assumption("starting costs", _seconds(starting_s), booting)


def _pace(setting: Setting, trainers: Sequence[Trainer], daemon: AsDaemon | None) -> Iterator[Assumption]:
    boots_s = [one.boot_s for one in trainers]
    seen = f"by looks {_seconds([setting.poll_s])} apart" if setting.poll_s else "at once"
    trains = f"train {_seconds(boots_s)} later" if any(boots_s) else "" if setting.poll_s else "train at once"
    yield Assumption("as the holes allow: idle nodes are seen", ", and ".join(filter(None, (seen, trains))))
    if daemon is None:
        return
    timing, nodes = daemon.timing, daemon.rules.nodes
    woken = ", and when a job comes or ends" if timing.wakes is not None else ""
    yield Assumption("as daemon: it looks", f"every {_seconds([timing.poll_s])}{woken}")
    yield Assumption("a fragment starts", f"{_seconds([timing.launch_s])} after the order", "where no job waits")
    cycle = f"{_seconds([nodes.backfill.interval_s])} apart"
    yield Assumption("while one waits", "with Slurm’s next backfill cycle", f"cycles are {cycle}")
    booting = _seconds([each or timing.boot_s for each in boots_s] or [timing.boot_s])
    yield Assumption("its node trains", f"{booting} later", "the boot")
    yield Assumption("it has left", f"{_seconds([timing.leave_s])} after the order", "")
    yield Assumption("or", f"{_seconds([timing.evict_s])} after Slurm took the node", "for a job of the site’s")
    yield from _limits(daemon)


def _limits(daemon: AsDaemon) -> Iterator[Assumption]:
    nodes, fragments = daemon.rules.nodes, daemon.rules.fragments
    yield Assumption("margin", _seconds([nodes.margin_s]), "nodes are given back so long before they are wanted")
    yield Assumption("shortest hole", _seconds([nodes.shortest_hole_s]), "holes expected to be shorter are left")
    yield Assumption("rest", _seconds([nodes.cool_down_s]), "a node that was taken back is left alone")
    yield Assumption("longest fragment", brief_duration(fragments.longest_s))
    if nodes.reserve_nodes:
        yield Assumption("kept back", count(nodes.reserve_nodes, "idle node"))
    if nodes.most_nodes:
        yield Assumption("lent at most", count(nodes.most_nodes, "node"))


def _seconds(values: Iterable[float]) -> str:
    """All alike, or from least to most; nothing for none."""
    least, most = min(distinct := set(values)), max(distinct)
    if most == 0:
        return "nothing"
    return f"{number(least)} s" if least == most else f"{number(least)} to {number(most)} s"
