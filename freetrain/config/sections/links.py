"""Settings: what the links between the site's nodes carry."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from freetrain.config.sections.section import Section
from freetrain.config.values import Amount


class Links(Section):
    """What the links between the site's nodes carry: policies that reserve bandwidth, as gadget, decide by it."""

    node_gbit: Annotated[
        Amount,
        Field(
            description="Gbit/s of the link between a node and its switch, each way (the slowest node's); 0: not "
            "known, and nothing is reserved."
        ),
    ] = 0.0
    uplink_gbit: Annotated[
        Amount,
        Field(
            description="Gbit/s of all links together from a leaf switch of 'scontrol show topology' to the "
            "others; 0: likewise."
        ),
    ] = 0.0

    @property
    def are_known(self) -> bool:
        """Whether anything can be reserved."""
        return bool(self.node_gbit or self.uplink_gbit)
