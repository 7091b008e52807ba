"""Settings: what the site's nodes have and cost."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from freetrain.config.sections.section import Section
from freetrain.config.values import Amount
from freetrain.core.power import PowerDraw


class Prices(Section):
    """What the site's nodes have and cost: replays and the ledger say by it what idle nodes are worth."""

    currency: Annotated[str, Field(max_length=8, description="In which the prices are.")] = "EUR"
    gpus_per_node: Annotated[
        Amount, Field(description="GPUs of each node; 0: not known, and what follows from it is left out.")
    ] = 0.0
    watts_per_node: Annotated[Amount, Field(description="What a node takes that trains; 0: not known.")] = 0.0
    idle_watts_per_node: Annotated[
        Amount, Field(description="What a node takes without a job, which is switched on anyway.")
    ] = 0.0
    watts_of: Annotated[
        dict[str, Amount],
        Field(
            description="What nodes of some kinds take that train, by feature or type of GPU (in a replay by "
            'pool of the machine file), as {"a100"=2400}; all others, and all in the ledger, take watts_per_node.'
        ),
    ] = {}
    idle_watts_of: Annotated[
        dict[str, Amount],
        Field(description="What they take without a job, likewise; all others take idle_watts_per_node."),
    ] = {}
    per_kwh: Annotated[
        Amount, Field(description="Price of a kWh of electricity, cooling included; 0: not known.")
    ] = 0.0
    per_gpu_hour: Annotated[Amount, Field(description="What a GPU-hour costs elsewhere; 0: not known.")] = 0.0

    @property
    def say_anything(self) -> bool:
        """Whether anything follows from them."""
        return bool(self.gpus_per_node or self.draw.is_known)

    @property
    def draw(self) -> PowerDraw:
        """What lent nodes take beyond what they take idle."""

        def beyond_idle(watts: float, kind: str) -> float:
            return max(watts - self.idle_watts_of.get(kind, self.idle_watts_per_node), 0.0)

        of_kind_w = {kind: beyond_idle(watts, kind) for kind, watts in self.watts_of.items()}
        return PowerDraw(beyond_idle(self.watts_per_node, "") if self.watts_per_node else 0.0, of_kind_w)
