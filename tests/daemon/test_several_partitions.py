"""Fragments with a QOS of their own in several of the site's partitions."""

from __future__ import annotations

from typing import cast

import pytest

from freetrain.config import Config, Slurm
from freetrain.core.cluster import Snapshot
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.job import Job, JobState
from freetrain.core.needs import Needs
from freetrain.core.node import Partition
from freetrain.daemon.trainers.registry import SubmissionReader
from freetrain.daemon.trainers.training import Patience, RosterRules
from freetrain.slurm.asking import TaskSpec
from freetrain.slurm.gateway import Gateway
from tests.facts import node

QUEUE = FragmentQueue("main,gpu", "spare")
RULES = RosterRules(True, Patience(60.0, 3), 60.0, QUEUE, "speedup")
PARTITIONS = {"main": Partition("main", frozenset({"n1", "n2"})), "gpu": Partition("gpu", frozenset({"n2", "n3"}))}


class Answers:
    """A Slurm whose jobs ask for nothing."""

    def task_requests(self, queue: FragmentQueue, default_memory_mb: int) -> dict[str, TaskSpec]:
        return {"7": TaskSpec(Needs(excluded=frozenset({"n9"})))}


def excluded(partition: str, state: JobState = JobState.PENDING) -> frozenset[str]:
    """The nodes on which a training that came to these partitions must not run."""
    job = Job("7_0", "7", "alice", partition, state, qos="spare", comment="freetrain:min=1")
    found = Snapshot(0.0, tuple(node(f"n{number}") for number in (1, 2, 3)), (job,), partitions=PARTITIONS)
    reader = SubmissionReader(cast(Gateway, Answers()))
    return reader.read(found, found.jobs, RULES)["7"].needs.excluded


def test_a_training_that_came_to_some_of_them_only_is_lent_the_nodes_of_these() -> None:
    assert excluded("main,gpu") == excluded("gpu,main") == {"n9"}
    assert excluded("main") == {"n3", "n9"}
    assert excluded("gpu") == {"n1", "n9"}


def test_of_one_that_runs_slurm_names_the_partition_in_which_it_does() -> None:
    assert excluded("main", JobState.RUNNING) == {"n9"}


def test_several_partitions_need_a_qos_of_fragments() -> None:
    assert Config(slurm=Slurm(partition="main,gpu", qos="spare")).slurm.queue == QUEUE
    with pytest.raises(ValueError, match="fragments need a QOS of their own"):
        Slurm(partition="main,gpu")
