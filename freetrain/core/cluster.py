"""The snapshot: a Slurm machine at one instant, as frozen facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property

from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.job import Job
from freetrain.core.node import Node, Nodes, NodeState, Partition, Reservation


@dataclass(frozen=True)
class Snapshot:
    """Everything observed at one instant.

    Attributes:
        jobs: all jobs that wait, run, or ended a moment ago.
        rejected: lines of Slurm's answers that could not be understood, with the reason.
    """

    time_s: float
    nodes: tuple[Node, ...]
    jobs: tuple[Job, ...]
    reservations: tuple[Reservation, ...] = ()
    partitions: Mapping[str, Partition] = field(default_factory=dict)
    rejected: tuple[str, ...] = ()

    @cached_property
    def job(self) -> Mapping[str, Job]:
        """Jobs by id."""
        return {job.id: job for job in self.jobs}

    @cached_property
    def site_jobs(self) -> Callable[[FragmentQueue], Sequence[Job]]:
        """The site's own jobs, which are all that are not in the queue of fragments."""
        # Kept with the snapshot: many rules ask for the same queue's jobs in a look.
        return cache(lambda queue: [job for job in self.jobs if not queue.has(job)])

    def site_nodes(self, queue: FragmentQueue) -> Nodes:
        """The nodes that the site's own jobs have, as far as Slurm shows these jobs."""
        return Nodes().union(*(job.nodes for job in self.site_jobs(queue) if job.state.has_nodes))

    @cached_property
    def hidden(self) -> Nodes:
        """Nodes of jobs that Slurm does not show (PrivateData)."""
        shown = Nodes().union(*(job.nodes for job in self.jobs if job.state.has_nodes))
        busy = (node.name for node in self.nodes if node.state is NodeState.BUSY)
        return Nodes(name for name in busy if name not in shown)

    @cached_property
    def node(self) -> Mapping[str, Node]:
        """Nodes by name."""
        return {node.name: node for node in self.nodes}

    @cached_property
    def limited(self) -> Sequence[Job]:
        """Waiting jobs that wait for a limit in which other jobs count."""
        return [job for job in self.jobs if job.limit is not None]

    @cached_property
    def idle(self) -> Nodes:
        """Names of the nodes that are idle."""
        return Nodes([node.name for node in self.nodes if node.state is NodeState.IDLE])
