"""Policies, placers and finishers by name: one entry each, from which all lists, options and tests come.

A policy of freetrain's own is a file and an entry here. Packages bring others, by the entry points
``freetrain.policies``, ``freetrain.placers`` and ``freetrain.finishers``. Behind a policy's name its options
may stand, as the parts of an objective do: ``gadget,utility=log``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Any, cast

from freetrain.core.topology import FLAT, Topology
from freetrain.core.trainer import PAST_FIELDS
from freetrain.durations import parse_duration
from freetrain.errors import InputError
from freetrain.policies.aiming import heeded_by
from freetrain.policies.dltap import Dltap
from freetrain.policies.equal_share import EqualShare
from freetrain.policies.freetrain import FreeTrain, Solver
from freetrain.policies.gadget.policy import UTILITIES, Gadget, RingPlacer
from freetrain.policies.greedy import Greedy
from freetrain.policies.needs import DATA_WAIT, GRADIENTS, PROGRESS, STEP_MODEL, SWITCHES, TARGET, Need
from freetrain.policies.smd import SIZES, Smd
from freetrain.policies.stages import AS_ASKED, FIRST_NODES, NEEDS_PAST, Finisher, Placer, Policy
from freetrain.policies.synergy import OPT, TUNE


class Stage(StrEnum):
    """A stage of a decision."""

    POLICY = "policy"
    """Number of nodes of each trainer."""
    PLACER = "placer"
    """Nodes of each trainer."""
    FINISHER = "finisher"
    """CPUs and memory of shared nodes."""

    @property
    def method(self) -> str:
        """The method that what decides it must have."""
        return {"policy": "decide", "placer": "place", "finisher": "finish"}[self]

    @property
    def group(self) -> str:
        """The group of entry points by which packages bring a policy, placer or finisher."""
        return f"freetrain.{'policies' if self is Stage.POLICY else f'{self}s'}"


@dataclass(frozen=True, slots=True)
class Given:
    """Arguments that an entry may be made with.

    Attributes:
        name: name of the policy, with its options.
        options: options of the policy, by name; those that are missing have their defaults.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    solver: str = Solver.AUTO
    time_limit_s: float = 10.0
    topology: Topology = FLAT


@dataclass(frozen=True, slots=True)
class PolicyOption:
    """An option of a policy.

    Attributes:
        name: key in ``[decide.POLICY]`` and behind the policy's name.
        words: words that it may be, the default first; none: it is a duration.
    """

    name: str
    means: str
    words: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """The option in words, as ``utility=linear|log|fair``."""
        return f"{self.name}={'|'.join(self.words) or 'DURATION'}"

    def read(self, text: str) -> str | float:
        """The value that a text stands for.

        Raises:
            ValueError: it stands for none.
        """
        if not self.words:
            return parse_duration(text)
        if text not in self.words:
            raise ValueError(f"{self.name} is {' or '.join(self.words)}, not {text!r}")
        return text


@dataclass(frozen=True, slots=True)
class StageEntry:
    """A policy, placer or finisher of freetrain's own."""

    name: str
    stage: Stage
    how: str
    make: Callable[[Given], object]
    needs: tuple[Need, ...] = ()
    maximises: str = ""
    options: tuple[PolicyOption, ...] = ()


_PATIENCE = PolicyOption(
    "patience", "a training to which so much of its time is owed has a turn once in every such time; 0: never"
)

ENTRIES = (
    StageEntry(
        "freetrain",
        Stage.POLICY,
        "the exact optimum of FreeTrain's programme (CCGrid 2023)",
        lambda given: FreeTrain(given.solver, given.time_limit_s),
        maximises="the objective",
    ),
    StageEntry(
        "equal-share",
        Stage.POLICY,
        "everyone the same number of nodes",
        lambda given: EqualShare(),
        maximises="the smallest share",
    ),
    StageEntry(
        "greedy",
        Stage.POLICY,
        "each trainer's best size at the market's price per node",
        lambda given: Greedy(),
        maximises="the objective, nearly",
    ),
    StageEntry(
        "gadget",
        Stage.POLICY,
        "most utility of what is done so far (GADGET, INFOCOM 2022)",
        lambda given: Gadget(name=given.name, **given.options),
        (PROGRESS, TARGET, GRADIENTS),
        "the utility of the part of each target that is done",
        (
            PolicyOption("utility", "of the part of its target that a training has done", tuple(UTILITIES)),
            _PATIENCE,
        ),
    ),
    StageEntry(
        "smd",
        Stage.POLICY,
        "each at its fastest size or not at all, by what completing is worth (SMD, INFOCOM 2021)",
        lambda given: Smd(name=given.name, **given.options),
        (PROGRESS, TARGET, STEP_MODEL),
        "the worth of completions",
        (
            PolicyOption("sizes", "fastest: of each training its fastest or none; menu: smaller ones, too", SIZES),
            _PATIENCE,
        ),
    ),
    StageEntry("first", Stage.PLACER, "the first nodes, idle ones first", lambda given: FIRST_NODES),
    StageEntry(
        "ring",
        Stage.PLACER,
        "few leaves for each trainer, ranks in ring order (the embedding of GADGET, INFOCOM 2022)",
        lambda given: RingPlacer(given.topology),
        (SWITCHES,),
    ),
    StageEntry(
        "dltap",
        Stage.PLACER,
        "near the trainer's other nodes (DLTAP, ITM Web of Conferences 2017, its score of leaves)",
        lambda given: Dltap(given.topology),
        (SWITCHES,),
    ),
    StageEntry("as-asked", Stage.FINISHER, "of a shared node what the task asks for", lambda given: AS_ASKED),
    StageEntry(
        "synergy-tune",
        Stage.FINISHER,
        "what each training can use of a shared node, none less than its share (Synergy, OSDI 2022)",
        lambda given: TUNE,
        (DATA_WAIT,),
    ),
    StageEntry(
        "synergy-opt",
        Stage.FINISHER,
        "the same, such that all on a node are fastest together, with HiGHS",
        lambda given: OPT,
        (DATA_WAIT,),
    ),
)

RENAMED: Mapping[str, str] = MappingProxyType(
    {"gadget-log": "gadget,utility=log", "gadget-fair": "gadget,utility=fair", "smd-menu": "smd,sizes=menu"}
)
"""Names that policies had → what they are now; both are understood."""


def _own(stage: Stage) -> tuple[str, ...]:
    return tuple(entry.name for entry in ENTRIES if entry.stage is stage)


POLICIES, PLACERS, FINISHERS = _own(Stage.POLICY), _own(Stage.PLACER), _own(Stage.FINISHER)
"""freetrain's own, the default first; nothing of a package's may have one of these names."""

VARIANTS = tuple(
    variant
    for entry in ENTRIES
    if entry.stage is Stage.POLICY
    for variant in (
        entry.name,
        *(f"{entry.name},{option.name}={word}" for option in entry.options for word in option.words[1:]),
    )
)
"""freetrain's own policies, each with every word of its options."""


def find_policy(name: str, solver: str = Solver.AUTO, time_limit_s: float = 10.0) -> Policy:
    """The policy of this name and these options; those without a solver of freetrain's ignore its settings.

    Raises:
        InputError: there is no such policy, it has no such option, or it cannot be loaded.
    """
    entry = find_entry(Stage.POLICY, name)
    if entry is None:
        return cast(Policy, _installed_once(Stage.POLICY, name))
    name = RENAMED.get(name, name)
    return cast(Policy, entry.make(Given(name, _read_options(entry, name), solver, time_limit_s)))


def find_placer(name: str, topology: Topology = FLAT) -> Placer:
    """The placer of this name, for nodes that are connected so.

    Raises:
        InputError: there is no such placer, or it cannot be loaded.
    """
    entry = find_entry(Stage.PLACER, name)
    if entry is None:
        # Made each time: the switches may be others.
        return cast(Placer, _installed(Stage.PLACER, name, topology))
    return cast(Placer, entry.make(Given(name, topology=topology)))


def find_finisher(name: str) -> Finisher:
    """The finisher of this name.

    Raises:
        InputError: there is no such finisher, or it cannot be loaded.
    """
    entry = find_entry(Stage.FINISHER, name)
    return cast(Finisher, _installed_once(Stage.FINISHER, name) if entry is None else entry.make(Given(name)))


def find_entry(stage: Stage, name: str) -> StageEntry | None:
    """Freetrain's own of this name, whatever its options; None: there is none."""
    plain = RENAMED.get(name, name).partition(",")[0]
    return next((entry for entry in ENTRIES if entry.stage is stage and entry.name == plain), None)


def renamed(name: str) -> str:
    """A sentence on the new name of a policy that was renamed; empty: it was not."""
    plain, _, option = RENAMED.get(name, "").partition(",")
    if not plain:
        return ""
    word, _, value = option.partition("=")
    return (
        f'The policy {name} is now an option of {plain}: write policy = "{plain}" under [decide] and '
        f'{word} = "{value}" under [decide.{plain}], or --policy {plain},{option}.'
    )


def _read_options(entry: StageEntry, name: str) -> Mapping[str, str | float]:
    known = {option.name: option for option in entry.options}
    found: dict[str, str | float] = {}
    for part in name.split(",")[1:]:
        word, _, value = part.partition("=")
        try:
            if word not in known or word in found:
                raise ValueError(f"{part!r} is not an option of it, or stands there twice")
            found[word] = known[word].read(value)
        except ValueError as error:
            options = [option.shown for option in entry.options]
            hint = f"It takes {', '.join(options)}." if options else f"{entry.name} takes no options."
            raise InputError(f"The policy {name!r} cannot be: {error}.", hint) from error
    return found


@lru_cache(maxsize=128)
def _installed_once(stage: Stage, name: str) -> object:
    # Made once, so that a policy that was there when settings were checked stays there.
    return _installed(stage, name)


def names(stage: Stage, but: str = "") -> tuple[str, ...]:
    """Names of all policies, placers or finishers that can be chosen, freetrain's own first."""
    own = _own(stage)
    installed = {entry.name for entry in entry_points(group=stage.group)}.difference(own, RENAMED, {but})
    return (*own, *sorted(installed))


def _installed(stage: Stage, name: str, *arguments: object) -> object:
    """A policy, placer or finisher of a package, made with the arguments."""
    found = tuple(entry_points(group=stage.group, name=name))
    if not found:
        hint = f"Choose one of {', '.join(names(stage))}, or install the package that has it."
        raise InputError(f"There is no {stage} {name!r}.", hint)
    if len(found) > 1:
        places = ", ".join(sorted(entry.value for entry in found))
        raise InputError(f"Several packages have a {stage} {name!r}: {places}.", "Uninstall all but one of them.")
    made = _load(stage, found[0], arguments)
    if not callable(getattr(made, stage.method, None)):
        what = f"The {stage} {name!r} ({found[0].value}) has no method {stage.method!r}"
        raise InputError(f"{what}: its type is {type(made).__name__}.", "docs/developers/policy.md shows one.")
    if needs := _unknown_needs(made):
        what = f"The {stage} {name!r} ({found[0].value}) needs what nobody knows of a trainer: {needs}"
        raise InputError(f"{what}.", f"Its attribute {NEEDS_PAST} may name {', '.join(sorted(PAST_FIELDS))}.")
    return made


def _unknown_needs(policy: object) -> str:
    if hasattr(policy, "needs_progress"):  # as it was named until there was more of a past than samples
        return "needs_progress"
    return ", ".join(sorted({*getattr(policy, NEEDS_PAST, ())} - PAST_FIELDS))


def _load(stage: Stage, entry: EntryPoint, arguments: Sequence[object]) -> object:
    try:
        return entry.load()(*arguments)
    except (Exception, SystemExit) as error:  # a package may raise anything
        failed, choices = f"{type(error).__name__}: {error}", ", ".join(names(stage, entry.name))
        raise InputError(
            f"The {stage} {entry.name!r} ({entry.value}) cannot be loaded: {failed}.",
            f"Install its package again with what it needs, or choose one of {choices}.",
        ) from error


@dataclass(frozen=True, slots=True)
class About:
    """A policy, placer or finisher that can be chosen, in words.

    Attributes:
        heeds: parts of the objective that it heeds; empty: none.
        options: behind a policy's name, as ``utility=linear|log|fair``.
    """

    name: str
    stage: Stage
    how: str
    needs: str = "nothing"
    heeds: str = ""
    maximises: str = ""
    options: tuple[str, ...] = ()


def catalogue() -> tuple[About, ...]:
    """Descriptions of all that can be chosen, freetrain's own first, stage by stage."""
    return tuple(_about(stage, name) for stage in Stage for name in names(stage))


def _about(stage: Stage, name: str) -> About:
    entry = find_entry(stage, name)
    if entry is None:
        heeds = "see its package" if stage is Stage.POLICY else ""
        return About(name, stage, "of a package that is installed", "see its package", heeds)
    heeds = ""
    if stage is Stage.POLICY:
        parts = heeded_by(find_policy(name))
        heeds = "all of it" if parts is None else ", ".join(sorted(parts))
    options = tuple(option.shown for option in entry.options)
    needs = "; ".join(f"{need.what} (otherwise {need.assumed})" for need in entry.needs) or "nothing"
    return About(name, stage, entry.how, needs, heeds, entry.maximises, options)
