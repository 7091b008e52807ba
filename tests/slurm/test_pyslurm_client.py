"""The recorded answer is that of pyslurm 25.11.2 on Slurm 25.11.7, in the same second as the recorded texts."""

from __future__ import annotations

import json
from math import inf
from pathlib import Path
from typing import Any

import pytest

from freetrain.core.cluster import Snapshot
from freetrain.core.job import Job, JobState
from freetrain.slurm.parsing import parse_jobs, parse_nodes, parse_partitions, parse_reservations
from freetrain.slurm.pyslurm_client import snapshot_of
from freetrain.slurm.site.facts import Site
from freetrain.slurm.tags import TAG_PREFIX

RECORDED = Path(__file__).parent / "recorded"
THEN_S = 1795246145.0


def answer() -> dict[str, Any]:
    whole: dict[str, Any] = json.loads((RECORDED / "pyslurm_25.11.json").read_text())
    return whole


def text(name: str) -> str:
    return (RECORDED / f"{name}_25.11.txt").read_text(errors="replace")


def facts(**changes: Any) -> Snapshot:
    return snapshot_of({**answer(), **changes}, THEN_S, TAG_PREFIX)


def job(**changes: Any) -> Job:
    (plain,) = [record for record in answer()["Jobs"] if record["id"] == 4]
    (only,) = facts(Jobs=[{**plain, **changes}]).jobs
    return only


def test_the_facts_are_those_of_slurms_texts() -> None:
    found = facts()
    assert found.rejected == ()
    jobs, _ = parse_jobs(text("squeue"), "MARK", TAG_PREFIX)
    assert len(found.jobs) == len(jobs)
    assert found.job == {job.id: job for job in jobs}
    assert list(found.nodes) == parse_nodes(text("nodes"))[0]
    assert list(found.reservations) == parse_reservations(text("reservation"))[0]
    assert found.partitions == Site({}, parse_partitions(text("partition"))[0]).nodes_of


@pytest.mark.parametrize(
    ("changes", "id_", "array"),
    [
        ({}, "4", "4"),
        ({"array_id": 3, "array_task_id": 1}, "3_1", "3"),
        ({"array_id": 3, "array_task_id": None}, "3_0", "3"),
        ({"array_id": 4, "array_task_id": None}, "4_0", "4"),
        ({"array_id": 4, "state": "CANCELLED", "allocated_nodes": None}, "4", "4"),
        ({"array_id": 4, "array_tasks_waiting": "5-9"}, "4_[5-9]", "4"),
        ({"array_id": 4, "array_tasks_waiting": "5-9", "array_tasks_parallel": 2}, "4_[5-9%2]", "4"),
        ({"heterogeneous_id": 3, "heterogeneous_offset": 1}, "3+1", "4"),
        ({"heterogeneous_id": 4}, "4+0", "4"),
    ],
)
def test_ids_of_jobs(changes: dict[str, Any], id_: str, array: str) -> None:
    found = job(**changes)
    assert (found.id, found.array) == (id_, array)


def test_the_end_of_a_job_without_a_limit_is_not_known_until_it_came() -> None:
    assert job(time_limit=None, end_time=int(THEN_S) + 31536000).end_s is None
    assert job(time_limit=None, end_time=int(THEN_S) - 1).end_s == THEN_S - 1
    assert job(time_limit=None).limit_s == inf


def test_priorities_that_pyslurm_takes_for_words() -> None:
    assert job(priority="UNLIMITED").priority == 0xFFFFFFFF
    assert job(priority=None).priority == 0xFFFFFFFE


def test_only_a_waiting_job_has_a_plan() -> None:
    assert job(scheduled_nodes="n[001-002]").planned_nodes == frozenset()
    assert job(scheduled_nodes="n[001-002]", state="PENDING").planned_nodes == {"n001", "n002"}


def test_states_that_a_later_slurm_invents() -> None:
    assert job(state="TELEPORTING").state is JobState.UNKNOWN


def test_a_comment_is_what_a_command_would_have_printed() -> None:
    assert job(comment="freetrain:min=1\r\n|\r\n\n").comment == "freetrain:min=1\n|"
    assert job(comment="None").comment == ""


def test_a_record_that_makes_no_sense_is_named_and_the_rest_is_used() -> None:
    records = answer()
    found = facts(
        Nodes=[*records["Nodes"], {"name": "broken"}],
        Jobs=[{**records["Jobs"][0], "id": 77, "allocated_nodes": "c[01-"}],
    )
    assert len(found.nodes) == len(records["Nodes"])
    assert found.jobs == ()
    assert [line.split(" not")[0] for line in found.rejected] == ["77 of Jobs", "'broken' of Nodes"]


def test_flags_of_reservations() -> None:
    record = answer()["Reservations"][0]
    flags = 1 | 1 << 20 | 1 << 17 | 1 << 41
    (found,) = facts(Reservations=[{**record, "flags": flags, "purge_time": 90000}]).reservations
    assert found.flags == {"MAINT", "TIME_FLOAT", "PURGE_COMP=1-01:00:00"}
    (found,) = facts(Reservations=[{**record, "flags": 1 << 20, "purge_time": None}]).reservations
    assert found.flags == {"PURGE_COMP"}
