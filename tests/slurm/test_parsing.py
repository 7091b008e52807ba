"""The recorded texts are those of a real Slurm 22.05 and 25.11; what is written out here is modelled on them."""

from __future__ import annotations

import re
from math import inf
from pathlib import Path

import pytest

from freetrain.core.job import JobState
from freetrain.core.node import NodeState
from freetrain.slurm.errors import (
    SlurmBusyError,
    SlurmMissingError,
    SlurmRateLimitError,
    SlurmRefusedError,
    SlurmUnclearError,
    SlurmUnreachableError,
    explain,
)
from freetrain.slurm.parsing import (
    expand_nodes,
    fold_nodes,
    parse_jobs,
    parse_nodes,
    parse_partitions,
    parse_preemptions,
    parse_reservations,
    parse_runs,
)
from freetrain.slurm.parsing.hardware import NodeRows
from freetrain.slurm.parsing.jobs import JobRows, waiting_tasks
from freetrain.slurm.queries import SEPARATOR
from freetrain.slurm.site.facts import Site


def recorded(name: str, version: str = "22.05") -> str:
    return (Path(__file__).parent / "recorded" / f"{name}_{version}.txt").read_text(errors="replace")


def test_jobs_of_squeue() -> None:
    jobs, rejected = parse_jobs(recorded("squeue"), "MARK", "freetrain:")
    assert rejected == []
    by_id = {job.id: job for job in jobs}
    assert set(by_id) == {"1_0", "1_1", "1_3", "3", "6"}
    assert by_id["1_3"].is_held
    assert (by_id["1_3"].array, by_id["1_3"].comment) == ("1", "freetrain:min=1,max=4")
    assert by_id["3"].reason.startswith("Nodes required for job are DOWN")
    assert (by_id["3"].node_count, by_id["3"].limit_s) == (6, 600.0)


def test_a_comment_that_looks_like_another_job_stays_a_comment() -> None:
    jobs, _ = parse_jobs(recorded("squeue"), "MARK", "freetrain:")
    (hostile,) = [job for job in jobs if job.id == "6"]
    assert hostile.comment == "freetrain:min=1\nMARK?\x1f1_5\x1fevil | `id` ü"


def test_other_peoples_arrays_stay_one_job() -> None:
    jobs, _ = parse_jobs(recorded("squeue"), "MARK", "something else")
    assert "1_[0-1,3]" in {job.id for job in jobs}


def test_a_record_that_makes_no_sense_is_named_and_the_rest_is_used() -> None:
    text = f"MARK{SEPARATOR}77{SEPARATOR}77\n" + recorded("squeue")
    jobs, rejected = parse_jobs(text, "MARK", "freetrain:")
    assert len(jobs) == 5
    assert rejected == ["job '77': 2 fields instead of 20"]


def test_rows_that_come_again_are_not_read_again_and_others_are() -> None:
    text, known = recorded("squeue"), JobRows()
    answers = [
        text,
        text.replace("RUNNING", "COMPLETING"),
        f"MARK{SEPARATOR}77\n",
        text.replace("1_[3]", "1_[3-5]"),
        text,
    ]
    for answer in answers:
        assert parse_jobs(answer, "MARK", "freetrain:", known) == parse_jobs(answer, "MARK", "freetrain:")
    before, again = (parse_jobs(text, "MARK", "freetrain:", known)[0] for _ in range(2))
    assert all(new is old for new, old in zip(again, before, strict=True))


def test_a_node_stays_the_same_whatever_its_daemon_measures() -> None:
    text, known = recorded("nodes"), NodeRows()
    before, _ = parse_nodes(text, known=known)
    measured = re.sub(r"(CPULoad|FreeMem|LastBusyTime)=\S+", r"\1=7", text).replace("State=IDLE", "State=DOWN", 1)
    assert measured.count("=7 ") > len(before)
    again, _ = parse_nodes(measured, known=known)
    assert [new is old for new, old in zip(again, before, strict=True)] == [False] + [True] * (len(before) - 1)
    assert again == parse_nodes(measured)[0]


def test_nodes_of_scontrol() -> None:
    nodes, rejected = parse_nodes(recorded("nodes") + "NodeName=broken Arch=x\n")
    assert [node.name for node in nodes] == [f"n00{number}" for number in range(1, 7)]
    assert (nodes[0].state, nodes[0].state_text, nodes[0].partitions) == (
        NodeState.IDLE,
        "IDLE",
        ("main", "freetrain"),
    )
    assert nodes[4].state_text == "IDLE+MAINTENANCE+RESERVED"
    assert nodes[5].state_text.endswith("+DRAIN")
    assert len(rejected) == 1


def test_reservations_and_partitions() -> None:
    (reservation,), _ = parse_reservations(recorded("reservation"))
    assert (reservation.name, reservation.nodes) == ("maint", {"n005"})
    assert reservation.end_s - reservation.start_s == 3600
    assert "MAINT" in reservation.flags
    partitions = Site({}, parse_partitions(recorded("partition"))[0]).nodes_of
    assert len(partitions["main"].nodes) == 6
    lent = partitions["freetrain"]
    assert (lent.priority_tier, lent.preempt_mode, lent.grace_s, lent.max_time_s) == (1, "CANCEL", 30.0, 86400.0)
    assert lent.is_up


def test_runs_of_accounting() -> None:
    runs, rejected = parse_runs(recorded("sacct") + "nonsense\n")
    done = {run.id: run for run in runs}["1_2"]
    assert done.state is JobState.COMPLETED
    assert done.end_s is not None
    assert done.start_s is not None
    assert done.end_s - done.start_s == 600
    assert {run.id: run for run in runs}["3"].start_s is None
    assert len(rejected) == 1


def test_lists_of_nodes() -> None:
    assert expand_nodes("c[01-03,7],d5") == {"c01", "c02", "c03", "c7", "d5"}
    assert expand_nodes("(null)") == frozenset()
    assert fold_nodes(["c03", "c01", "c02"]) == "c[01-03]"
    with pytest.raises(ValueError, match="no list of nodes"):
        expand_nodes("c[01-")


@pytest.mark.parametrize(
    "text",
    ["c[1-99999999]", f"c[1-{'9' * 5000}]", "r[1-2000]n[1-2000]", "c[1-700000],d[1-700000]"],
)
def test_a_list_that_is_a_slip_of_the_pen_is_not_counted_out(text: str) -> None:
    with pytest.raises(ValueError, match="more than 100,000 nodes in"):
        expand_nodes(text)


def test_lists_of_large_machines_are_read() -> None:
    assert len(expand_nodes("a[1-20000],b[1-20000],c-99999999-99999999")) == 40_001
    assert len(expand_nodes("r[1-40]n[001-100],x")) == 4_001


def test_there_are_no_groups_of_nodes_in_answers_of_slurm() -> None:
    assert expand_nodes("n001,@gpu") == {"n001", "@gpu"}
    assert fold_nodes(["n001", "@gpu"]) == "@gpu,n001"


def test_an_array_with_steps_and_a_throttle_is_taken_apart() -> None:
    text = recorded("squeue").replace("1_[0-1,3]", "1_[0-6:3,9%2]")
    jobs, _ = parse_jobs(text, "MARK", "freetrain:")
    assert {job.id for job in jobs if job.array == "1"} == {"1_0", "1_3", "1_6", "1_9"}
    assert all(job.limit_s < inf for job in jobs)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("slurm_load_jobs error: Unable to contact slurm controller (connect failure)", SlurmUnreachableError),
        ("slurm_load_jobs error: Socket timed out on send/recv operation", SlurmUnreachableError),
        ("Job update not available right now, the DB index is being set, try again in a bit", SlurmBusyError),
        ("6_0-3: Resource temporarily unavailable", SlurmBusyError),
        ("slurm_update error: Access/permission denied", SlurmRefusedError),
        ("slurm_suspend error: Invalid job id specified", SlurmRefusedError),
        ("slurm_load_jobs error: Rate limit exceeded, please retry later", SlurmRateLimitError),
        (
            "allocation failure: Rate limit exceeded, please retry momentarily",
            SlurmRateLimitError,
        ),
        ("fatal: Unable to process configuration file", SlurmMissingError),
        ("Slurmctld(primary) at vm is DOWN", SlurmUnreachableError),
    ],
)
def test_what_slurm_complains_about_is_told_apart(said: str, kind: type) -> None:
    error = explain("scontrol update", said)
    assert type(error) is kind
    assert said.splitlines()[-1] in error.what


def test_a_controller_that_is_down_is_said_to_be_so_without_the_stars() -> None:
    error = explain("scontrol ping", recorded("ping", "25.11"))
    assert isinstance(error, SlurmUnreachableError)
    assert error.what == "Slurm does not answer scontrol ping: Slurmctld(primary) at vm is DOWN"


def test_that_squeue_does_not_know_a_field_is_not_why_it_failed() -> None:
    complaint, why = "squeue: error: Invalid job format specification: Exclusive", "Invalid job id specified"
    assert explain("squeue -h", f"{complaint}\n{why}").what == f"Slurm refuses squeue -h: {why}"


def test_jobs_of_a_later_squeue() -> None:
    jobs, rejected = parse_jobs(recorded("squeue", "25.11"), "MARK", "freetrain:")
    assert rejected == []
    by_id = {job.id: job for job in jobs}
    assert len(by_id) == len(jobs)
    assert by_id["25"].planned_nodes == {"n002", "n003"}
    assert by_id["25"].start_s is not None
    assert by_id["4"].nodes == {"n001", "n002"}
    assert by_id["13"].limit_s == inf
    assert by_id["6"].state is JobState.FAILED
    assert {id_ for id_ in by_id if id_.startswith("11")} == {"11+0", "11+1"}
    assert by_id["9"].comment == "freetrain:min=1\nMARK?\x1f1_5\x1fevil | `id` ü �� bad\nendx"
    assert by_id["17_4"].reason == "ReqNodeNotAvail, May be reserved for other job"
    assert sum(job.array == "2" for job in jobs) == 101
    assert all(job.is_held for job in jobs if job.array == "2")


def test_nodes_reservations_and_partitions_of_a_later_scontrol() -> None:
    nodes, rejected = parse_nodes(recorded("nodes", "25.11"))
    said = {node.name: node.state_text for node in nodes}
    assert (len(nodes), rejected) == (8, [])
    assert said["n001"] == "ALLOCATED+DRAIN"
    assert said["n006"] == "IDLE+DRAIN"
    assert nodes[3].features == {"ib"}
    assert {node.partitions for node in nodes[2:]} == {
        ("main", "freetrain")
    }  # whatever the reason of a drain says
    reservations, rejected = parse_reservations(recorded("reservation", "25.11"))
    by_name = {reservation.name: reservation for reservation in reservations}
    assert (len(by_name), rejected) == (6, [])
    assert by_name["daily"].flags == {"FLEX", "DAILY", "SPEC_NODES", "PURGE_COMP=00:05:00"}
    assert by_name["cores"].nodes == {"n007", "n008"}
    rows, rejected = parse_partitions(recorded("partition", "25.11"))
    assert rejected == []
    partitions = Site({}, rows).nodes_of
    assert not partitions["odd"].is_up
    assert (partitions["odd"].priority_tier, partitions["odd"].max_time_s) == (0, inf)
    assert (partitions["freetrain"].grace_s, partitions["freetrain"].preempt_mode) == (30.0, "CANCEL")


def test_runs_of_a_later_accounting() -> None:
    runs, rejected = parse_runs(recorded("sacct", "25.11"))
    assert rejected == []
    assert [run.state for run in runs if run.id == "7"] == [JobState.NODE_FAIL, JobState.RUNNING]
    (failed,) = [run for run in runs if run.id == "6"]
    assert failed.state is JobState.FAILED
    (cancelled,) = [run for run in runs if run.id == "17_4"]
    assert cancelled.state is JobState.CANCELLED
    assert cancelled.start_s is None


def test_who_was_asked_to_leave_is_known_from_when() -> None:
    """As squeue 22.05 prints it, with a grace time."""
    header = "JOBID               PREEMPT_TIME        \n"
    text = f"{header}5_0                 N/A                 \n5_1                 1795260394          \n"
    assert parse_preemptions(text) == {"5_1": 1795260394.0}


@pytest.mark.parametrize("text", ["", "slurm_load_jobs error: hm\n", "5_1 1795260394\n", "JOBID PREEMPT_TIME"])
def test_a_text_that_does_not_say_who_was_preempted_is_not_understood(text: str) -> None:
    with pytest.raises(SlurmUnclearError):
        parse_preemptions(text)


@pytest.mark.parametrize(
    ("id_", "tasks"),
    [
        ("7", 1),
        ("7_3", 1),
        ("7_[0-3,7]", 5),
        ("7_[0-9:3]", 4),
        ("7_[0-3,7%2]", 2),
        ("7_[0-3999999]", 4_000_000),
        ("7_[0-3,...]", 1),
        ("7_[3-1]", 1),
    ],
)
def test_a_record_of_an_array_stands_for_the_tasks_that_may_start(id_: str, tasks: int) -> None:
    assert waiting_tasks(id_) == tasks
