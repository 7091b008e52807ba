"""What job_submit.lua makes of jobs, with a stub in Slurm's place."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.slurm.lua import INTERPRETERS, JOB_SUBMIT, job_comp_with

pytestmark = pytest.mark.parametrize("interpreter", INTERPRETERS)


@dataclass(frozen=True)
class Done:
    accepted: bool
    told: list[str]
    logged: list[str]
    job: dict[str, str]


def lua(interpreter: str, directory: Path, chunk: str) -> Done:
    case = directory / "case.lua"
    case.write_text(f"local freetrain = ...\n{chunk}\n")
    command = [interpreter, str(Path(__file__).with_name("jobs.lua")), str(JOB_SUBMIT), str(case)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    said = {
        kind: [line[len(kind) + 1 :] for line in lines if line.startswith(f"{kind} ")]
        for kind in ("user", "error")
    }
    fields = dict(line.split("=", 1) for line in lines if "=" in line and line.split()[0] not in said)
    return Done("answer 0" in lines, said["user"], said["error"], fields)


def submit(interpreter: str, directory: Path, fields: str) -> Done:
    return lua(interpreter, directory, f"local j = job {{{fields}}} return slurm_job_submit(j, {{}}, 9), j")


UNTOUCHED = {"min_nodes": "4294967294", "max_nodes": "4294967294", "requeue": "65534", "priority": "4294967294"}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("comment='freetrain:min=2,max=16'", {"array_inx": "0-15", "comment": "freetrain:min=2,max=16"}),
        ("comment='freetrain:max=1'", {"array_inx": "0-0"}),
        ("comment='freetrain:', min_nodes=2, max_nodes=16", {"array_inx": "0-15", "comment": "freetrain:min=2"}),
        ("comment='freetrain:name=x | hi', min_nodes=2, max_nodes=3", {"comment": "freetrain:name=x,min=2 | hi"}),
        ("comment='freetrain:', min_nodes=4, max_nodes=4, min_cpus=8", {"array_inx": "0-3", "min_cpus": "2"}),
        (
            "comment='freetrain:max=8', min_nodes=4, max_nodes=4",
            {"array_inx": "0-7", "comment": "freetrain:max=8"},
        ),
        ("comment='freetrain:max=2', partition='main', requeue=0", {"array_inx": "0-1"}),
        ("comment='freetrain:', min_nodes=4, max_nodes=4, num_tasks=16, ntasks_per_node=4", {"num_tasks": "4"}),
    ],
)
def test_a_tagged_job_becomes_a_held_array(
    interpreter: str, tmp_path: Path, fields: str, expected: dict[str, str]
) -> None:
    done = submit(interpreter, tmp_path, fields)
    assert done.accepted
    assert len(done.told) == 1
    always = {
        "min_nodes": "1", "max_nodes": "1", "partition": "freetrain", "requeue": "1", "priority": "0",
        "shared": "0",
    }  # fmt: skip
    assert always.items() <= done.job.items()
    assert expected.items() <= done.job.items()


def test_an_array_stays_as_it_is_but_for_partition_hold_and_requeue(interpreter: str, tmp_path: Path) -> None:
    done = submit(interpreter, tmp_path, "comment='freetrain:min=2', array_inx='3-9%2', num_tasks=4, min_cpus=4")
    assert done.accepted
    kept = {"array_inx": "3-9%2", "num_tasks": "4", "min_cpus": "4", "comment": "freetrain:min=2"}
    changed = {"partition": "freetrain", "requeue": "1", "priority": "0"}
    assert (kept | changed).items() <= done.job.items()
    assert done.job["min_nodes"] == UNTOUCHED["min_nodes"]


def test_tasks_of_several_nodes_ask_for_what_one_node_needs_until_their_size_is_chosen(
    interpreter: str, tmp_path: Path
) -> None:
    tag = "comment='freetrain:kind=tasks,nodes=2-4', array_inx='0-9'"
    done = submit(interpreter, tmp_path, f"{tag}, min_nodes=2, max_nodes=4, num_tasks=8, ntasks_per_node=4")
    assert done.accepted
    assert {"min_nodes": "1", "max_nodes": "1", "num_tasks": "4", "priority": "0"}.items() <= done.job.items()
    assert "array 0-9 of tasks in partition" in done.told[0]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ("comment='freetrain:mim=2'", "there is no key mim; did you mean min?"),
        ("comment='freetrain:min=2'", "how many nodes can it use? Write max=… into the tag, or -N 2-16"),
        ("comment='freetrain:min=8', min_nodes=4, max_nodes=4", "min=8 is more than its 4 nodes"),
        ("comment='freetrain:max=2', min_nodes=3, max_nodes=9", "min=3 is more than max=2"),
        ("comment='freetrain:', array_inx='0-3', min_nodes=1, max_nodes=3", "has one node: write -N1"),
        ("comment='freetrain:', min_nodes=4, num_tasks=7", "write --ntasks-per-node"),
        ("comment='freetrain:', min_nodes=4, tres_per_job='gres:gpu:4'", "write --gpus-per-node"),
        ("comment='freetrain:kind=tasks,max=4'", "kind=tasks is for arrays: write --array=0-99"),
        ("comment='freetrain:max=2', script=false", "only a batch script can be a trainer: use sbatch"),
        ("comment='freetrain:name=%s%d%n'", "name=%s%d%n may have"),
        ("comment='freetrain:' .. ('\\27[2J\\n`'):rep(9999) .. '=1'", "there is no key ?[2J???[2J"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(interpreter: str, tmp_path: Path, fields: str, why: str) -> None:
    done = submit(interpreter, tmp_path, fields)
    assert not done.accepted
    (sentence,) = done.told
    assert sentence.startswith("freetrain: ")
    assert why in sentence


@pytest.mark.parametrize(
    "comment", ["", "comment='x freetrain:zz'", "comment='Freetrain:max=2'", "comment='%s%n'"]
)
def test_an_untagged_job_is_not_touched(interpreter: str, tmp_path: Path, comment: str) -> None:
    done = submit(interpreter, tmp_path, comment)
    assert done.accepted
    assert done.told == done.logged == []
    assert UNTOUCHED.items() <= done.job.items()
    assert "partition" not in done.job


BROKEN = "setmetatable({}, {__index = function(_, key) %s error('broken') end, __newindex = error})"


def test_an_error_inside_stops_no_untagged_job(interpreter: str, tmp_path: Path) -> None:
    done = lua(interpreter, tmp_path, f"return slurm_job_submit({BROKEN % ''}), {{}}")
    assert done.accepted
    assert done.told == []


def test_an_error_inside_refuses_a_tagged_job_and_is_logged(interpreter: str, tmp_path: Path) -> None:
    tagged = BROKEN % "if key == 'comment' then return 'freetrain:max=2' end"
    done = lua(interpreter, tmp_path, f"return slurm_job_submit({tagged}), {{}}")
    assert not done.accepted
    assert done.told == ["freetrain: its plug-in failed on this job; please tell the admins, its log says why"]
    assert "broken" in done.logged[0]


@pytest.mark.parametrize(
    ("new", "old", "accepted"),
    [
        ("'freetrain:max=4'", "'freetrain:max=2'", True),
        ("'freetrain:mim=4'", "'freetrain:max=2'", False),
        ("'freetrain:mim=4'", "nil", False),
        ("'freetrain:mim=4 | there is no key mim'", "'freetrain:mim=4'", True),
        ("'freetrain:mim=4 | there is no key mim'", "'freetrain:mim=5'", False),
        ("'good night'", "'freetrain:max=2'", True),
        ("nil", "'freetrain:mim=4'", True),
    ],
)
def test_a_change_to_a_wrong_tag_is_refused(
    interpreter: str, tmp_path: Path, new: str, old: str, accepted: bool
) -> None:
    done = lua(interpreter, tmp_path, f"return slurm_job_modify({{comment={new}}}, {{comment={old}}})")
    assert done.accepted is accepted
    assert bool(done.told) is not accepted


def test_it_works_within_a_sites_own_script(interpreter: str, tmp_path: Path) -> None:
    chained = f"""
        function slurm_job_submit(job)
            local answer = site.submit(job)
            if answer == slurm.SUCCESS then job.account = "checked" end
            return answer
        end
        site = dofile("{JOB_SUBMIT}")
        site.partition, site.qos = "scavenge", "spare"
        local j = job {{comment = "freetrain:max=3"}}
        return slurm_job_submit(j), j
    """
    done = lua(interpreter, tmp_path, chained)
    expected = {"account": "checked", "partition": "scavenge", "qos": "spare", "array_inx": "0-2"}
    assert expected.items() <= done.job.items()


def test_each_submission_puts_a_byte_into_the_wake_file_at_once(interpreter: str, tmp_path: Path) -> None:
    wake = tmp_path / "wake"
    submits = f"""
        collectgarbage("stop") -- what the collector would write is late
        freetrain.wake_file = '{wake}'
        local j = job {{}}
        slurm_job_submit(j, {{}}, 9)
        local answer = slurm_job_submit(j, {{}}, 9)
        j.account = io.open('{wake}'):read("*a")
        return answer, j
    """
    done = lua(interpreter, tmp_path, submits)
    assert (done.accepted, done.job["account"]) == (True, "..")


def jobs_end(interpreter: str, directory: Path, wake: Path) -> str:
    """What is in the wake file when the plug-in has been told of a job's end, if there is one."""
    script = directory / "jobcomp.lua"
    script.write_text(job_comp_with(wake))
    chunk = f"""
        collectgarbage("stop")
        assert(dofile("{script}") == 0 and slurm_jobcomp_log_record({{}}) == 0)
        local file = io.open("{wake}")
        io.write(file and file:read("*a") or "no file")
    """
    return subprocess.run([interpreter, "-"], input=chunk, capture_output=True, text=True, check=True).stdout


def test_each_end_of_a_job_puts_a_byte_into_the_wake_file_at_once(interpreter: str, tmp_path: Path) -> None:
    assert jobs_end(interpreter, tmp_path, tmp_path / "wake") == "."


def test_a_job_ends_where_the_wake_file_cannot_be_written(interpreter: str, tmp_path: Path) -> None:
    assert jobs_end(interpreter, tmp_path, tmp_path / "gone/wake") == "no file"


def test_a_wake_file_that_cannot_be_written_stops_no_job(interpreter: str, tmp_path: Path) -> None:
    submits = "local j = job {} return slurm_job_submit(j, {}, 9), j"
    assert lua(interpreter, tmp_path, f"freetrain.wake_file = '{tmp_path}/gone/wake' {submits}").accepted
