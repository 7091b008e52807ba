from __future__ import annotations

from dataclasses import replace

from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.job import Job, JobState
from freetrain.core.node import Partition

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


def test_in_several_partitions_of_the_sites_jobs_with_its_qos_are_its_wherever_they_wait() -> None:
    queue = FragmentQueue("main,debug", "freetrain")
    ours = replace(JOB, qos="freetrain")
    assert [queue.has(replace(ours, partition=name)) for name in ("main", "debug", "debug,main")] == [True] * 3
    assert not queue.has(replace(ours, partition="debug,other"))
    assert not queue.has(JOB)
    assert str(queue) == "partitions main, debug with QOS freetrain"


def test_of_several_partitions_all_nodes_may_be_lent_but_those_of_one_that_is_down() -> None:
    main = Partition("main", frozenset({"n1", "n2"}), max_time_s=3600.0)
    debug = Partition("debug", frozenset({"n2", "n3"}), max_time_s=600.0, default_memory_mb=100)
    queue = FragmentQueue("main,debug", "freetrain")
    both = queue.among({"main": main, "debug": debug})
    assert (both.nodes, both.is_up, both.max_time_s) == ({"n1", "n2", "n3"}, True, 600.0)
    assert both.default_memory_mb == 100
    down = queue.among({"main": main, "debug": replace(debug, is_up=False)})
    assert (down.nodes, down.is_up) == ({"n1", "n2"}, True)
    none = queue.among({"main": replace(main, is_up=False), "debug": replace(debug, is_up=False)})
    assert (len(none.nodes), none.is_up) == (3, False)
    assert (queue.missing({"main": main}), queue.missing({"main": main, "debug": debug})) == ("debug", "")
