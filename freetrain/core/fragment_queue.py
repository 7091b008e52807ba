"""The queue of fragments: by it their jobs are told from the site's own. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from freetrain.core.cluster import Job


@dataclass(frozen=True, slots=True)
class FragmentQueue:
    """Where fragments wait and run.

    Attributes:
        partition: whose nodes may be lent.
        qos: that fragments have, where the site's jobs run in that partition, too; empty: none of them do.
    """

    partition: str
    qos: str = ""

    def has(self, job: Job) -> bool:
        """Whether a job waits or runs in it: any other job is the site's own."""
        return job.partition == self.partition and self.qos in ("", job.qos)

    def __str__(self) -> str:
        """As people call it."""
        return f"partition {self.partition}" + (f" with QOS {self.qos}" if self.qos else "")
