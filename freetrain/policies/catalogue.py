"""What there is to choose from: each policy, placer and finisher in a line, with what it needs to know."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from freetrain.policies.aiming import heeded_by
from freetrain.policies.registry import (
    FINISHERS,
    PLACERS,
    POLICIES,
    find_policy,
    finisher_names,
    placer_names,
    policy_names,
)


class Stage(StrEnum):
    """What is decided."""

    POLICY = "policy"
    """How many nodes each trainer gets."""
    PLACER = "placer"
    """Which nodes."""
    FINISHER = "finisher"
    """How many CPUs and how much memory of shared nodes."""


@dataclass(frozen=True, slots=True)
class About:
    """One that there is.

    Attributes:
        name: as options and settings name it.
        stage: what it decides.
        how: how, in a line.
        needs: what it has to be told besides the problem.
        heeds: what of the objective it heeds; empty: nothing of it is its business.
    """

    name: str
    stage: Stage
    how: str
    needs: str = "nothing"
    heeds: str = ""


_OWN = {
    "freetrain": "the exact optimum of FreeTrain's programme (CCGrid 2023)",
    "equal-share": "everyone the same number of nodes",
    "greedy": "each trainer's best size at the market's price per node",
    "gadget": "most utility of what is done so far, linear to the target (GADGET, INFOCOM 2022)",
    "gadget-log": "the same with a logarithm: who has done least gains most",
    "gadget-fair": "the same, steeper than a logarithm: who has done least comes nearly always first",
    "smd": "each at its fastest size or not at all, by what completing is worth (SMD, INFOCOM 2021)",
    "smd-menu": "the same with smaller sizes, too (freetrain's extension)",
    "first": "the first nodes, idle ones first",
    "ring": "few leaves for each trainer, ranks in ring order (the embedding of GADGET, INFOCOM 2022)",
    "dltap": "near the trainer's other nodes (DLTAP, ITM Web of Conferences 2017, its score of leaves)",
    "as-asked": "of a shared node what the task asks for",
    "synergy-tune": "what each training can use of a shared node, none less than its share (Synergy, OSDI 2022)",
    "synergy-opt": "the same, such that all on a node are fastest together, with HiGHS",
}

_SWITCHES = "the switches: scontrol show topology, or nodes_per_leaf in the machine file"
_PROGRESS = "samples done and targets, from the trainers' progress and tags"
_LINKS = f"{_PROGRESS}; to reserve bandwidth [links] and gradients in the tags"
_DATA_WAIT = "how long trainings wait for data, from their progress; parts of nodes (lend.share)"
_NEEDS = {
    "gadget": _LINKS,
    "gadget-log": _LINKS,
    "gadget-fair": _LINKS,
    "smd": _PROGRESS,
    "smd-menu": _PROGRESS,
    "ring": _SWITCHES,
    "dltap": _SWITCHES,
    "synergy-tune": _DATA_WAIT,
    "synergy-opt": _DATA_WAIT,
}
_INSTALLED = "of a package that is installed"


def catalogue() -> tuple[About, ...]:
    """All that there is, freetrain's own first, stage by stage."""
    return (
        *(_about(name, Stage.POLICY, POLICIES) for name in policy_names()),
        *(_about(name, Stage.PLACER, PLACERS) for name in placer_names()),
        *(_about(name, Stage.FINISHER, FINISHERS) for name in finisher_names()),
    )


def _about(name: str, stage: Stage, own: tuple[str, ...]) -> About:
    if name not in own:
        heeds = "see its package" if stage is Stage.POLICY else ""
        return About(name, stage, _INSTALLED, "see its package", heeds)
    return About(name, stage, _OWN[name], _NEEDS.get(name, "nothing"), _heeds(name, stage))


def _heeds(name: str, stage: Stage) -> str:
    if stage is not Stage.POLICY:
        return ""
    parts = heeded_by(find_policy(name))
    return "all of it" if parts is None else ", ".join(sorted(parts))
