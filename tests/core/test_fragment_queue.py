from __future__ import annotations

from dataclasses import replace

from freetrain.core.cluster import Job, JobState
from freetrain.core.fragment_queue import FragmentQueue

JOB = Job("1", "1", "alice", "main", JobState.PENDING, qos="normal")


def test_in_a_partition_of_its_own_every_job_is_its() -> None:
    queue = FragmentQueue("main")
    assert queue.has(JOB)
    assert queue.has(replace(JOB, qos=""))
    assert not queue.has(replace(JOB, partition="debug"))
    assert not queue.has(replace(JOB, partition="main,debug")), "who would start elsewhere, too, is the site's"


def test_in_a_partition_of_the_sites_only_jobs_with_its_qos_are_its() -> None:
    queue = FragmentQueue("main", "freetrain")
    assert queue.has(replace(JOB, qos="freetrain"))
    assert not queue.has(JOB)
    assert not queue.has(replace(JOB, qos="")), "where Slurm does not say which it has, it is the site's"
    assert not queue.has(replace(JOB, partition="debug", qos="freetrain"))
    assert (str(queue), str(FragmentQueue("main"))) == ("partition main with QOS freetrain", "partition main")
