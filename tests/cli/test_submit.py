from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from freetrain.cli.main import cli
from freetrain.errors import ExitCode
from freetrain.slurm.tags import KEYS
from tests.cli.fake_slurm import FakeSlurm

APPEND = "--open-mode=append"
OURS = ["--parsable", "--hold", "--requeue", "--array=0-15", "--nodes=1", "--partition=freetrain"]


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    """An sbatch that takes everything, and a script in the working directory."""
    fake = FakeSlurm.on_path(tmp_path / "bin", monkeypatch, "sbatch")
    fake.answers("sbatch", "4711\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TZ", "Europe/Berlin")
    monkeypatch.delenv("FREETRAIN_CONFIG", raising=False)
    Path("train.sh").write_text("#!/bin/bash\n")
    return fake


def submit(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["submit", *arguments])


def test_a_training_becomes_a_held_array_of_one_node_tasks(slurm: FakeSlurm, tmp_path: Path) -> None:
    result = submit(
        "--nodes", "2-16", "--name", "bert", "--dir", "t1", "--weight", "2", "--target", "1e6", "train.sh"
    )
    assert result.exit_code == 0
    assert result.stdout == "4711\n"
    assert "waits for 2 to 16 nodes" in result.stderr
    assert "end it with 'freetrain cancel 4711'" in result.stderr
    comment = f"--comment=freetrain:min=2,max=16,name=bert,dir={tmp_path}/t1,weight=2,target=1e6"
    assert slurm.calls == [
        ["sbatch", APPEND, *OURS, comment, "--exclusive", "--job-name=bert", f"{tmp_path}/train.sh"]
    ]


def test_who_wants_a_part_of_each_node_does_not_ask_for_all_of_it(slurm: FakeSlurm) -> None:
    submit("--nodes", "4", "--part", "--sbatch=--gpus-per-node=1", "train.sh")
    assert "--exclusive" not in slurm.calls[0]
    assert "--gpus-per-node=1" in slurm.calls[0]


def test_a_single_number_is_the_most(slurm: FakeSlurm) -> None:
    submit("--nodes", "4", "train.sh")
    assert {"--array=0-3", "--comment=freetrain:min=1,max=4"} < set(slurm.calls[0])


def test_an_ordinary_array_becomes_a_filler(slurm: FakeSlurm) -> None:
    result = submit("--array", "0-199%8", "--save", "300", "train.sh")
    assert "waits for idle nodes, one for each of its tasks" in result.stderr
    assert {"--array=0-199%8", "--comment=freetrain:save=300,kind=tasks", "--hold"} < set(slurm.calls[0])
    submit("--array", "0-9", "--kind", "tasks", "--nodes", "4", "train.sh")
    assert "--comment=freetrain:max=4,kind=tasks" in slurm.calls[1]


@pytest.mark.parametrize("array", ["7", "0-199", "0-9,20,30-40:2", "0-99:5%3"])
def test_an_array_is_named_as_for_sbatch(slurm: FakeSlurm, array: str) -> None:
    submit("--array", array, "train.sh")
    assert f"--array={array}" in slurm.calls[0]


def test_tasks_may_have_several_nodes_each(slurm: FakeSlurm) -> None:
    result = submit("--array", "0-9", "--task-nodes", "2-8", "train.sh")
    assert "waits for idle nodes, 2 to 8 for each of its tasks" in result.stderr
    assert {"--nodes=1", "--comment=freetrain:nodes=2-8,kind=tasks"} < set(slurm.calls[0])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "How many nodes can it use?"),
        (["--kind", "tasks"], "A filler has --array and --kind tasks."),
        (["--kind", "training", "--nodes", "4", "--array", "0-3"], "A filler has --array and --kind tasks."),
        (["--array", "0-9", "--nodes", "2-4"], "min is for kind=training only"),
        (["--array", "0-9", "--task-nodes", "2-8", "--part"], "Leave out --part or --task-nodes."),
        *(
            (["--array", wrong], "names no tasks")
            for wrong in ("", "9-0", "0-", "a", "0-9%", "0-9:", "1,,2", "-1")
        ),
        (["--nodes", "4", "--task-nodes", "2-8"], "nodes is for kind=tasks only"),
        (["--nodes", "4", "--shortest", "60"], "shortest is for kind=tasks only"),
    ],
)
def test_what_is_neither_a_training_nor_a_filler_is_refused(
    slurm: FakeSlurm, arguments: list[str], said: str
) -> None:
    result = submit(*arguments, "train.sh")
    assert (result.exit_code, slurm.calls) == (ExitCode.USAGE, [])
    assert said in result.stderr


def test_the_scripts_arguments_reach_it_one_by_one(slurm: FakeSlurm, tmp_path: Path) -> None:
    hostile = ["a b", "$(reboot)", "--nodes=7", "--", "`id`;'\"\\", "", "line\nbreak", "-x"]
    script = tmp_path / "my $(script) 'x\".sh"
    script.write_text("#!/bin/sh\n")
    submit("--nodes", "16", str(script), *hostile)
    (call,) = slurm.calls
    assert call[call.index(str(script)) + 1 :] == hostile


def test_a_script_that_looks_like_an_option_is_none(slurm: FakeSlurm, tmp_path: Path) -> None:
    Path("--uid=0").write_text("#!/bin/sh\n")
    submit("--nodes", "1", "--", "--uid=0")
    assert slurm.calls[0][-1] == f"{tmp_path}/--uid=0"


def test_more_options_of_sbatch_come_before_those_that_make_a_trainer(slurm: FakeSlurm) -> None:
    submit("--nodes", "16", "--sbatch", "--gpus-per-node=4", "--sbatch=--array=0-99", "train.sh")
    assert slurm.calls[0][1:10] == [APPEND, "--gpus-per-node=4", "--array=0-99", *OURS], (
        "the last of a kind counts"
    )


def test_the_job_inherits_the_users_environment(slurm: FakeSlurm) -> None:
    submit("--nodes", "1", "train.sh")
    assert "TZ=Europe/Berlin" in slurm.environment("sbatch")
    assert "SLURM_TIME_FORMAT" not in slurm.environment("sbatch")


def test_a_dry_run_prints_what_a_shell_would_take_and_does_nothing(slurm: FakeSlurm) -> None:
    arguments = ["--nodes", "16", "train.sh", "a b", "$HOME"]
    line = submit("--dry-run", *arguments).stdout
    assert slurm.calls == []
    submit(*arguments)
    assert shlex.split(line) == slurm.calls[0]


@pytest.mark.parametrize(
    ("given", "tagged"), [("30", "30"), ("0.5", "0.5"), ("10:00", "600"), ("1-12", "129600"), ("90s", "90")]
)
def test_durations_have_slurms_forms_and_the_tag_says_seconds(slurm: FakeSlurm, given: str, tagged: str) -> None:
    submit("--nodes", "2", "--boot", given, "train.sh")
    assert f"--comment=freetrain:min=1,max=2,boot={tagged}" in slurm.calls[0]


def test_the_configuration_names_the_partition(slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("site.toml").write_text('[slurm]\npartition = "scavenge"\n')
    monkeypatch.setenv("FREETRAIN_CONFIG", "site.toml")
    submit("--nodes", "1", "train.sh")
    submit("--nodes", "1", "--partition", "mine", "train.sh")
    assert [call[7] for call in slurm.calls] == ["--partition=scavenge", "--partition=mine"]


def test_the_configuration_names_the_qos(slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("site.toml").write_text('[slurm]\npartition = "main"\nqos = "spare"\n')
    monkeypatch.setenv("FREETRAIN_CONFIG", "site.toml")
    submit("--nodes", "1", "train.sh")
    assert slurm.calls[0][7:9] == ["--partition=main", "--qos=spare"]


def test_a_configuration_that_cannot_be_read_is_done_without(
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FREETRAIN_CONFIG", "/nowhere/freetrain.toml")
    result = submit("--nodes", "1", "train.sh")
    assert "cannot read the configuration" in result.stderr
    assert slurm.calls[0][7] == "--partition=freetrain"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--nodes", "16-2", "train.sh"], "--nodes 16-2 has a minimum above its maximum."),
        (["--nodes", "2-", "train.sh"], "--nodes 2- is not a number of nodes"),
        (["--nodes", "many", "train.sh"], "--nodes many is not a number of nodes"),
        (["--nodes", "2", "--name", "a,weight=9", "train.sh"], "name=a,weight=9 may have letters"),
        (["--nodes", "2", "--name", "x | y", "train.sh"], "name=x ? y may have letters"),
        (["--nodes", "2", "--dir", "a b", "train.sh"], "must be an absolute path"),
        (["--nodes", "2", "--weight", "0", "train.sh"], "weight=0 must be from 0.01 to 100"),
        (["--nodes", "2", "gone.sh"], "cannot read the script gone.sh: No such file"),
        (["--nodes", "2", "bin"], "cannot read the script bin: Is a directory"),
        (["--nodes", "2", "plain.py"], "plain.py does not begin with #!"),
        (["--nodes", "2", "--sbatch", "time=3", "train.sh"], "--sbatch 'time=3' is no option of sbatch"),
        (["--nodes", "2", "--sbatch", "--", "train.sh"], "--sbatch '--' is no option of sbatch"),
    ],
)
def test_what_cannot_be_submitted_is_not(slurm: FakeSlurm, arguments: list[str], why: str) -> None:
    Path("plain.py").write_text("print()\n")
    result = submit(*arguments)
    assert result.exit_code == ExitCode.USAGE
    assert why in result.stderr
    assert slurm.calls == []


@pytest.mark.parametrize(
    ("said", "code", "why"),
    [
        (
            "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)",
            ExitCode.UNREACHABLE,
            "look with 'squeue --me' before you submit again",
        ),
        (
            "sbatch: error: you have no budget left\nsbatch: error: Batch job submission failed: Unspecified",
            ExitCode.FAILED,
            "you have no budget left; Batch job submission failed: Unspecified",
        ),
        (
            "sbatch: error: Batch job submission failed: Invalid job array specification",
            ExitCode.FAILED,
            "MaxArraySize",
        ),
        (
            "sbatch: fatal: Could not establish a configuration source: slurm.conf",
            ExitCode.UNREACHABLE,
            "SLURM_CONF",
        ),
    ],
)
def test_what_slurm_says_is_passed_on(slurm: FakeSlurm, said: str, code: ExitCode, why: str) -> None:
    slurm.fails("sbatch", said)
    result = submit("--nodes", "2", "train.sh")
    assert result.exit_code == code
    assert why in result.stderr
    assert "Traceback" not in result.stderr


def test_an_sbatch_that_names_no_job_is_doubted(slurm: FakeSlurm) -> None:
    slurm.answers("sbatch", "")
    assert "sbatch named no job" in submit("--nodes", "2", "train.sh").stderr


def test_without_slurm_there_is_a_sentence(slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    result = submit("--nodes", "2", "train.sh")
    assert result.exit_code == ExitCode.UNREACHABLE
    assert "there is no sbatch on this machine" in result.stderr


def test_every_key_of_a_tag_has_its_option(slurm: FakeSlurm) -> None:
    said = submit("--help-all").stdout
    assert [f"--{name}" for name in KEYS if name not in ("min", "max") and f"--{name} " not in said] == []
