"""Nodes are lent to those only who can run on them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from freetrain.core.amounts import Amount
from freetrain.core.fragment import Fragment, FragmentState
from freetrain.core.needs import Needs
from freetrain.slurm.commands import Command
from freetrain.slurm.errors import SlurmUnclearError
from freetrain.slurm.steering import Steering
from freetrain.slurm.submissions import Submission
from tests.daemon.conftest import StartDaemon
from tests.daemon.fake_slurm import FakeSlurm
from tests.facts import node

GPUS = ("n1", "n2", "n3", "n4")
FOUR_GPUS = {"tres-per-node": "gres:gpu:4"}


@pytest.fixture
def slurm() -> FakeSlurm:
    """Its first four nodes have GPUs."""
    slurm = FakeSlurm()
    slurm.nodes |= {name: replace(slurm.nodes[name], gres=(("gpu:a100", 4),)) for name in GPUS}
    return slurm


def pins(slurm: FakeSlurm) -> list[str]:
    return [word.partition("=")[2] for told in slurm.told for word in told if word.startswith("ReqNodeList=")]


def test_who_asks_for_gpus_gets_nodes_with_gpus_only(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    array = slurm.submit_array("freetrain:min=1", tasks=8, asked=FOUR_GPUS)
    daemon = start_daemon()
    for _ in range(3):
        daemon.cycle()
    assert slurm.running(array) == list(GPUS)
    assert set(pins(slurm)) <= set(GPUS)


def test_who_needs_no_gpus_takes_nodes_with_gpus_last(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    small = slurm.submit_array("freetrain:min=1,max=4", tasks=8)
    start_daemon().cycle()
    assert slurm.running(small) == ["n5", "n6", "n7", "n8"]


def test_who_can_run_on_few_nodes_chooses_first(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    anywhere = slurm.submit_array("freetrain:min=1", tasks=8)
    particular = slurm.submit_array("freetrain:min=1", tasks=8, asked=FOUR_GPUS)
    start_daemon().cycle()
    assert slurm.running(particular) == list(GPUS)
    assert slurm.running(anywhere) == ["n5", "n6", "n7", "n8"]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"tres-per-node": "gres:gpu:8"}, "no node of the partition can run it: it asks for 8 × gpu"),
        ({"MinMemory": "2000M", "tres-alloc": "cpu=1,mem=2000M"}, "it asks for 2000 MB of memory"),
        ({"cpus-per-task": "3", "oversubscribe": "OK"}, "submit it with --exclusive"),
        ({"MinMemory": "?"}, "cannot tell which nodes can run it"),
    ],
)
def test_who_can_run_nowhere_is_told_so_and_never_pinned(
    slurm: FakeSlurm, start_daemon: StartDaemon, asked: dict[str, str], said: str
) -> None:
    array = slurm.submit_array("freetrain:min=1", tasks=8, asked=asked)
    other = slurm.submit_array("freetrain:min=1", tasks=8)
    daemon = start_daemon()
    for _ in range(3):
        daemon.cycle()
    assert said in slurm.jobs[f"{array}_0"].comment
    assert slurm.running(array) == []
    assert len(slurm.running(other)) == 8
    slurm.asked[array] = {}
    daemon.cycle(after_s=200)
    assert [entry.trainer.state for entry in daemon.cluster.registered.trainings] == ["active", "active"]


def test_a_task_that_would_get_a_part_of_its_node_asks_for_all_of_it(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    slurm.nodes = {name: replace(node, cpus=16) for name, node in slurm.nodes.items()}
    asked = {"oversubscribe": "OK", "MinMemory": "600M", "tres-alloc": "cpu=1,mem=600M"}
    slurm.submit_array("freetrain:min=1", tasks=1, asked=asked)
    start_daemon().cycle()
    (pin,) = [told for told in slurm.told if told[:2] == ("scontrol", "update")]
    assert {"MinCPUsNode=16", "MinMemoryNode=600"} <= set(pin)


def test_a_task_that_is_lent_a_part_of_a_node_asks_for_what_it_was_submitted_with() -> None:
    needs = Needs(cpus=2, memory_mb=100, gres=(("gpu", 1),), is_whole=False).lent_in_part()
    fragment = Fragment("7_1", "7", "n1", FragmentState.ASKED, 0.0, 600.0)
    order = Steering().place(Submission("7", "news", "", 0.0, (), needs), fragment, [node("n1", cpus=16)])
    assert order.command == ("scontrol", "update", "JobId=7_1", "ReqNodeList=n1", "TimeLimit=10", "StartTime=now")


@pytest.mark.parametrize(("asks", "more", "told"), [(1, 6, "6"), (1, None, "1"), (2, 6, None)])
def test_a_task_of_one_cpu_can_be_given_more_and_the_next_time_fewer(
    asks: int, more: int | None, told: str | None
) -> None:
    needs = Needs(cpus=asks, memory_mb=100, gres=(("gpu", 1),), is_whole=False).lent_in_part()
    submission = Submission("7", "news", "", 0.0, (), needs)
    fragment = Fragment("7_1", "7", "n1", FragmentState.ASKED, 0.0, 600.0)
    wanted, asked = Amount(6, 900, (("gpu", 1),)), Amount(asks, 100, (("gpu", 1),))
    assert Steering().gives(submission, wanted, asked) == replace(asked, cpus=6 if asks == 1 else asks)
    amount = None if more is None else Amount(more, 100, (("gpu", 1),))
    words = Steering().place(submission, fragment, [node("n1", cpus=16)], amount).command
    assert [word.partition("=")[2] for word in words if word.startswith("MinCPUs")] == ([told] if told else [])


def test_a_task_that_asks_for_no_memory_gets_all_of_it(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    slurm.submit_array("freetrain:min=1", tasks=1, asked={"MinMemory": "500M", "tres-alloc": "cpu=1,mem=500M"})
    start_daemon(default_memory_mb=500).cycle()
    (pin,) = [told for told in slurm.told if told[:2] == ("scontrol", "update")]
    assert "MinMemoryNode=0" in pin
    assert not any(word.startswith("MinCPUsNode") for word in pin)


def test_who_slurm_can_start_nowhere_rests_and_its_nodes_go_to_others(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    hopeless = slurm.submit_array("freetrain:min=1", tasks=8)
    slurm.impossible.add(hopeless)
    daemon = start_daemon()
    for _ in range(2):
        daemon.cycle()
    other = slurm.submit_array("freetrain:min=1", tasks=8)
    before = len(pins(slurm))
    for _ in range(4):
        daemon.cycle()
    assert len(slurm.running(other)) == 8
    assert len(pins(slurm)) == before + 8
    trainer = next(
        training.trainer for training in daemon.cluster.registered.trainings if training.trainer.id == hopeless
    )
    assert trainer.state == "resting"
    assert "BadConstraints" in trainer.note


def test_a_node_of_which_slurm_says_nothing_is_lent_to_nobody(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    slurm.nodes["n8"] = node("n8")
    array = slurm.submit_array("freetrain:min=1", tasks=8)
    start_daemon().cycle()
    assert slurm.running(array) == [f"n{number}" for number in range(1, 8)]


def test_slurm_is_asked_what_tasks_ask_for_when_there_are_new_ones_and_now_and_then(
    slurm: FakeSlurm, start_daemon: StartDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    perform = slurm.perform

    def counting(command: Command, stdin: str = "") -> str:
        asked.extend(["needs"] if command[0] == "squeue" and "-p" in command else [])
        return perform(command, stdin)

    monkeypatch.setattr(slurm, "perform", counting)
    daemon = start_daemon()
    daemon.cycle()
    assert asked == []
    slurm.submit_array("freetrain:min=1", tasks=2)
    for _ in range(5):
        daemon.cycle()
    assert len(asked) == 2
    slurm.submit_array("freetrain:min=1", tasks=2)
    daemon.cycle()
    assert len(asked) == 4
    daemon.cycle(after_s=200)
    assert len(asked) == 6


def test_an_answer_that_shows_no_job_is_no_answer(
    slurm: FakeSlurm, start_daemon: StartDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm.submit_array("freetrain:min=1", tasks=2)
    perform = slurm.perform
    monkeypatch.setattr(
        slurm, "perform", lambda command, stdin="": "" if "-O" in command else perform(command, stdin)
    )
    with pytest.raises(SlurmUnclearError, match="it shows no job"):
        start_daemon().cycle()
    assert slurm.told == []


def test_a_task_of_several_nodes_asks_of_each_for_what_the_smallest_has() -> None:
    needs = Needs(is_whole=False, processes=2)
    submission = Submission("7", "news", "freetrain:kind=tasks,nodes=2-4", 0.0, (), needs)
    fragment = Fragment("7_0", "7", "n1", FragmentState.ASKED, 0.0, 600.0)
    nodes = [node("n1", cpus=16), node("n2", cpus=8), node("n3", cpus=16)]
    words = Steering().place(submission, fragment, nodes).command
    assert {"ReqNodeList=n1,n2,n3", "MinCPUsNode=8", "NumNodes=3-3", "NumTasks=6"} < set(words)
