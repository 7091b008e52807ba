"""Settings: how it is decided who gets what, and how often."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from freetrain.config.sections.section import Section
from freetrain.config.values import Duration, Period
from freetrain.durations import show_duration

_Patience = Annotated[
    Duration,
    Field(
        description="A training to which so much of its time is owed has a turn once in every such time; 0: never."
    ),
]


class GadgetOptions(Section):
    """Options of the policy gadget."""

    utility: Annotated[
        Literal["linear", "log", "fair"],
        Field(
            description="What the policy gadget sums up, of the part of its target that a training has done; with "
            "log, and more with fair, those that have done least gain most."
        ),
    ] = "linear"
    patience: _Patience = 86400.0


class SmdOptions(Section):
    """Options of the policy smd."""

    sizes: Annotated[
        Literal["fastest", "menu"],
        Field(
            description="What the policy smd chooses from: fastest: each training's fastest size or nothing; "
            "menu: smaller sizes, too."
        ),
    ] = "fastest"
    patience: _Patience = 86400.0


class Decide(Section):
    """How it is decided who gets what."""

    policy: Annotated[str, Field(description="As in 'freetrain replay --policy'.")] = "freetrain"
    place: Annotated[
        str,
        Field(
            description="Which nodes they are, as in 'freetrain replay --place'; the switches are those of "
            "'scontrol show topology'."
        ),
    ] = "first"
    finish: Annotated[
        str,
        Field(
            description="Where parts of nodes are lent: as-asked: what a task asks for; synergy-tune: with GPUs "
            "more CPUs or memory, of what is left, for trainings that wait for data; synergy-opt: the same, "
            "divided such that they are fastest together; or what a package brings."
        ),
    ] = "as-asked"
    objective: Annotated[str, Field(description="As in 'freetrain replay --objective'.")] = "weighted"
    horizon: Annotated[
        Duration,
        Field(
            description="How far ahead value is counted; 0: as long as idle nodes are expected to stay, which is "
            "learned."
        ),
    ] = 0.0
    gadget: GadgetOptions = GadgetOptions()
    smd: SmdOptions = SmdOptions()

    @property
    def policy_with_options(self) -> str:
        """The policy as 'freetrain replay --policy' takes it: its options, where they differ from the defaults."""
        options = getattr(self, self.policy, None)
        if not isinstance(options, GadgetOptions | SmdOptions):
            return self.policy
        chosen = options.model_dump(exclude_defaults=True)
        shown = (
            f"{name}={show_duration(value) if isinstance(value, float) else value}"
            for name, value in chosen.items()
        )
        return ",".join((self.policy, *shown))


class Pace(Section):
    """How often things happen."""

    poll: Annotated[Period, Field(description="How often Slurm is asked; four questions each time.")] = 10.0
    cool_down: Annotated[Duration, Field(description="How long a node that was taken back is not lent again.")] = (
        0.0
    )
    back_off: Annotated[
        Duration, Field(description="How long a trainer rests after its fragments failed; doubles each time.")
    ] = 60.0
    failures_to_pause: Annotated[
        int, Field(ge=1, description="Failures in a row after which a trainer is paused until its owner looks.")
    ] = 5
