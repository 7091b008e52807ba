"""Settings: how freetrain talks to Slurm."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from freetrain.config.sections.section import Section, SettingsTogetherError
from freetrain.config.values import Duration
from freetrain.core.fragment_queue import FragmentQueue


class Slurm(Section):
    """How freetrain talks to Slurm."""

    backend: Annotated[
        Literal["auto", "cli", "pyslurm"],
        Field(description="Slurm's commands or pyslurm; auto: pyslurm where it is installed and answers."),
    ] = "auto"
    partition: Annotated[
        str,
        Field(
            description="The partition in which fragments run; its nodes are those that may be lent. It is "
            "preemptible and freetrain's own, unless slurm.qos is set; then there may be several, as a,b."
        ),
    ] = "freetrain"
    qos: Annotated[
        str,
        Field(
            description="The preemptible QOS of fragments, where the site's jobs run in their partition, too "
            "(PreemptType=preempt/qos): jobs there with another QOS are the site's. Empty: all jobs in the "
            "partition are freetrain's."
        ),
    ] = ""
    timeout: Annotated[Duration, Field(description="How long one question to Slurm may take.")] = 30.0

    @model_validator(mode="after")
    def _several_partitions_have_a_qos(self) -> Slurm:
        if "," in self.partition and not self.qos:
            raise SettingsTogetherError(
                "partition names several: fragments need a QOS of their own then (slurm.qos)", 'qos = "freetrain"'
            )
        return self

    @property
    def queue(self) -> FragmentQueue:
        """Where fragments wait and run."""
        return FragmentQueue(self.partition, self.qos)
