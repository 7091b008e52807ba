"""Settings: when lending does too much harm."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from freetrain.config.sections.section import Section
from freetrain.config.values import Duration


class Harm(Section):
    """When freetrain lends nothing for a while by itself, since lending did too much harm."""

    limit: Annotated[
        Duration, Field(description="Delay of one of the site's jobs, caused by a fragment, that is too much.")
    ] = 60.0
    within: Annotated[
        Duration,
        Field(description="Over what time such delays, lost nodes and evictions are counted."),
    ] = 3600.0
    allowed: Annotated[
        int, Field(ge=0, description="How many such delays, and how many lost nodes, are tolerated in that time.")
    ] = 3
    evictions: Annotated[
        int,
        Field(
            ge=0,
            description="How many evictions are tolerated in that time; 0: any number. Each node that Slurm takes "
            "back counts, so a site's job on 100 lent nodes is 100 evictions.",
        ),
    ] = 0
    pause: Annotated[
        Duration,
        Field(description="How long freetrain then lends nothing, from the last of those that were too many."),
    ] = 3600.0
