"""Settings: what may be lent, and to whom."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from freetrain.config.sections.section import Section, SettingsTogetherError
from freetrain.config.values import AmountText, Duration, NodeList


class Lend(Section):
    """What may be lent, and to whom."""

    mode: Annotated[
        Literal["observe", "advise", "act"],
        Field(
            description="observe: watch and record what would be done; advise: also print the commands; "
            "act: carry them out."
        ),
    ] = "observe"
    launcher: Annotated[
        Literal["steer", "submit"],
        Field(
            description="steer: the users' own held array tasks are pinned and released; submit: freetrain "
            "submits fragments itself."
        ),
    ] = "steer"
    share: Annotated[
        Literal["whole", "gpus", "any"],
        Field(
            description="How much of a node is lent. whole: all of it, and only where no job has any of it; gpus: "
            "to tasks that ask for GPUs also the part that they ask for, beside other jobs; any: to all tasks."
        ),
    ] = "whole"
    keep: Annotated[
        AmountText,
        Field(description='What stays free on a node that is lent in parts, as "cpu=4,mem=16G" (and gres/gpu=1).'),
    ] = ""
    exclude_nodes: Annotated[NodeList, Field(description="Nodes never to lend, as c[01-04,17] or @group.")] = ""
    reserve_nodes: Annotated[int, Field(ge=0, description="Idle nodes to leave alone, always.")] = 0
    next_in_line: Annotated[
        Duration,
        Field(
            description="Whole nodes on which the first waiting job of a partition will start are kept free as "
            "soon as one more end of a running job lets it start, and is expected within this time; 0: never."
        ),
    ] = 60.0
    most_nodes: Annotated[int, Field(ge=0, description="Most nodes to lend at once; 0: no limit.")] = 0
    spare_suspendable: Annotated[
        bool,
        Field(
            description="Leave nodes alone that Slurm powers down when they are idle for SuspendTime: a lent node "
            "never is, and stays powered up."
        ),
    ] = False
    idle_for: Annotated[Duration, Field(description="How long a node must have been idle before it is lent.")] = (
        0.0
    )
    shortest_hole: Annotated[Duration, Field(description="Holes expected to be shorter are left alone.")] = 120.0
    longest_fragment: Annotated[
        Duration, Field(description="Time limit of a fragment whose node nobody is expected to want.")
    ] = 86400.0
    margin: Annotated[
        Duration,
        Field(
            description="A fragment's limit ends this long before its hole: Slurm enforces limits up to 30 s late."
        ),
    ] = 60.0
    max_running: Annotated[
        int, Field(ge=1, description="Most trainers that may compete at once, of those that could run now.")
    ] = 100
    fair_share: Annotated[
        Literal["user", "account", "off"],
        Field(
            description="user: users share the nodes equally; account: accounts do, and the users within each; "
            "off: all trainers compete by the objective alone."
        ),
    ] = "user"
    half_life: Annotated[
        Duration,
        Field(
            ge=3600,
            description="Past use of nodes tilts the shares, to half of an equal one at most; after this time it "
            "counts half.",
        ),
    ] = 7 * 86400.0
    shares: Annotated[
        dict[str, Annotated[float, Field(ge=0.01, le=100)]],
        Field(
            description="Users (or accounts, if they share) that get more or less than others, each with its "
            "weight from 0.01 to 100; those not named count 1."
        ),
    ] = {}
    most_nodes_per_user: Annotated[
        int, Field(ge=0, description="Most nodes lent to one user at once; 0: no limit.")
    ] = 0
    most_nodes_per_account: Annotated[
        int, Field(ge=0, description="Most nodes lent to one account at once; 0: no limit.")
    ] = 0
    most_trainers_per_user: Annotated[
        int, Field(ge=0, description="Most trainers of one user that may compete at once; 0: no limit.")
    ] = 0

    @property
    def in_parts(self) -> bool:
        """Whether parts of nodes are lent."""
        return self.share != "whole"

    @model_validator(mode="after")
    def _limits_need_people(self) -> Lend:
        if self.fair_share == "off" and (
            self.most_nodes_per_user or self.most_nodes_per_account or self.most_trainers_per_user
        ):
            raise SettingsTogetherError(
                'limits per user and account need fair_share = "user" or "account"', 'fair_share = "user"'
            )
        return self
