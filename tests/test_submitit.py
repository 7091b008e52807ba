"""submitit's executor with Slurm's commands as fakes, and the tasks run in this process."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("submitit", reason="submitit is not installed")

from submitit import AutoExecutor
from submitit.core.submission import process_job
from submitit.core.utils import FailedJobError
from submitit.helpers import Checkpointable

from freetrain.errors import ExitCode, InputError
from freetrain.submitit_plugin import FreetrainJob, FreetrainWatcher
from tests.cli.fake_slurm import FakeSlurm

ARRAY = "4711"


class Counting(Checkpointable):
    """Counts to its goal; SIGTERM comes once, on the way, and twice, as with a grace time."""

    def __init__(self) -> None:
        self.reached = 0

    def __call__(self, goal: int) -> list[int]:
        begun = self.reached
        while self.reached < goal:
            self.reached += 1
            if self.reached == 2 and begun == 0:
                os.kill(os.getpid(), signal.SIGTERM)
        return [begun, self.reached]


def twice(number: int) -> int:
    return 2 * number


def fail(number: int) -> None:
    raise ValueError(f"{number} is odd")


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeSlurm]:
    """Slurm's commands; sbatch takes everything, and what tasks change in this process is put back."""
    fake = FakeSlurm.on_path(tmp_path / "bin", monkeypatch, "sbatch", "srun", "sacct")
    fake.answers("sbatch", f"{ARRAY}\n")
    monkeypatch.setenv("FREETRAIN_CONFIG", str(tmp_path / "freetrain.toml"))
    (tmp_path / "freetrain.toml").write_text("[slurm]\npartition = 'spare'\n")
    monkeypatch.setattr(FreetrainJob, "watcher", FreetrainWatcher(delay_s=60))
    monkeypatch.setattr(FreetrainJob, "_results_timeout_s", 0)
    numbers = (signal.SIGTERM, signal.SIGCONT, signal.SIGUSR2)
    before = {number: signal.getsignal(number) for number in numbers}
    yield fake
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def executor(slurm: FakeSlurm, tmp_path: Path) -> AutoExecutor:
    return AutoExecutor(folder=tmp_path / "jobs", cluster="freetrain")


def run_task(executor: AutoExecutor, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Slurm would start on a node."""
    for name, value in {"ARRAY_JOB_ID": ARRAY, "ARRAY_TASK_ID": str(number), "JOB_ID": "4720"}.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    monkeypatch.setenv("SUBMITIT_EXECUTOR", "freetrain")
    process_job(executor.folder)


def test_functions_become_one_array_of_a_filler(executor: AutoExecutor, slurm: FakeSlurm) -> None:
    executor.update_parameters(freetrain_save=300, mem_gb=2, freetrain_array_parallelism=2)
    jobs = executor.map_array(twice, [1, 2, 3])
    assert [job.job_id for job in jobs] == ["4711_0", "4711_1", "4711_2"]
    (call,) = slurm.calls
    comment = "--comment=freetrain:notice=no,save=300,kind=tasks"
    assert {"--hold", "--array=0-2%2", "--partition=spare", "--exclusive", comment} < set(call)
    script = jobs[0].paths.submission_file.read_text()
    assert "#SBATCH --mem=2GB" in script
    assert "export SUBMITIT_EXECUTOR=freetrain" in script
    assert "--signal" not in script


def test_one_function_is_an_array_too_and_may_take_a_part_of_a_node(
    executor: AutoExecutor, slurm: FakeSlurm
) -> None:
    executor.update_parameters(freetrain_part=True, freetrain_notice=False)
    assert executor.submit(Counting(), 3).job_id == "4711_0"
    assert {"--array=0-0", "--comment=freetrain:notice=no,kind=tasks"} < set(slurm.calls[0])
    assert "--exclusive" not in slurm.calls[0]


def test_what_can_save_itself_is_said_to(executor: AutoExecutor, slurm: FakeSlurm) -> None:
    executor.map_array(Counting(), [1, 2])
    assert "--comment=freetrain:notice=yes,kind=tasks" in slurm.calls[0]


def test_results_come_back(executor: AutoExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = executor.map_array(twice, [4, 5])
    for number in (0, 1):
        run_task(executor, number, monkeypatch)
    assert [job.result() for job in jobs] == [8, 10]


def test_an_error_comes_back_as_submitits(executor: AutoExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    job = executor.submit(fail, 3)
    with pytest.raises(ValueError, match="3 is odd"):
        run_task(executor, 0, monkeypatch)
    with pytest.raises(FailedJobError, match="3 is odd"):
        job.result()


def test_what_has_to_leave_goes_on_from_its_checkpoint(
    executor: AutoExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = executor.submit(Counting(), 5)
    # What an earlier run that was cut off while it saved would have left.
    for pickle in (job.paths.submitted_pickle, job.paths.result_pickle):
        pickle.with_suffix(".pkl.save_tmp").touch()
    with pytest.raises(SystemExit) as end:
        run_task(executor, 0, monkeypatch)
    assert end.value.code == ExitCode.TRY_AGAIN
    assert not job.paths.result_pickle.exists()
    run_task(executor, 0, monkeypatch)
    assert job.result() == [2, 5]


def test_the_second_sigterm_of_a_grace_time_does_not_disturb_the_first(
    executor: AutoExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = executor.submit(Counting(), 5)
    checkpoint = Checkpointable.checkpoint

    def slowly(self: Checkpointable, *arguments: Any) -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        return checkpoint(self, *arguments)

    monkeypatch.setattr(Counting, "checkpoint", slowly, raising=False)
    with pytest.raises(SystemExit):
        run_task(executor, 0, monkeypatch)
    run_task(executor, 0, monkeypatch)
    assert job.result() == [2, 5]


def test_what_was_done_when_it_lost_its_node_is_not_done_twice(
    executor: AutoExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = executor.submit(twice, 4)
    run_task(executor, 0, monkeypatch)
    written_ns = job.paths.result_pickle.stat().st_mtime_ns
    with pytest.raises(SystemExit) as end:
        run_task(executor, 0, monkeypatch)
    assert (end.value.code, job.paths.result_pickle.stat().st_mtime_ns) == (0, written_ns)


@pytest.mark.parametrize(
    ("runs", "is_done"),
    [
        ([], False),
        (["PENDING|0"], False),
        (["REQUEUED|70", "PENDING|0"], False),
        (["PREEMPTED|70"], False),
        (["TIMEOUT|300"], False),
        (["NODE_FAIL|300"], False),
        (["PREEMPTED|70", "COMPLETED|9"], True),
        (["CANCELLED by 1000|9"], True),
        (["FAILED|31"], True),
        (["FAILED|3"], False),
        (["FAILED|3", "RUNNING|2"], False),
        (["FAILED|3", "FAILED|4"], True),
        (["OUT_OF_MEMORY|3", "PREEMPTED|4"], False),
        (["FAILED|70|75:0"], False),
        (["FAILED|70|75:0", "FAILED|3"], False),
    ],
)
def test_only_what_has_had_its_turn_is_done(
    executor: AutoExecutor, slurm: FakeSlurm, runs: list[str], is_done: bool
) -> None:
    job = executor.submit(twice, 4)
    cells = [[*run.split("|"), "1:0"] for run in runs]
    rows = [f"4711_0|{state}|n1|{elapsed_s}|{code}" for state, elapsed_s, code, *_ in cells]
    header = "JobID|State|NodeList|ElapsedRaw|ExitCode"
    slurm.answers("sacct", "\n".join([header, *rows, "4711_0.batch|FAILED|n1|3|1:0"]))
    assert job.done(force_check=True) is is_done
    assert slurm.calls[-1][-2:] == ["-j", "4711"]


def test_it_is_chosen_only_where_it_is_named(slurm: FakeSlurm) -> None:
    assert AutoExecutor.which() == "slurm"


def test_what_a_tag_cannot_say_is_an_error(executor: AutoExecutor) -> None:
    executor.update_parameters(freetrain_weight=1000)
    with pytest.raises(InputError, match="weight=1000 must be from"):
        executor.submit(twice, 4)
    with pytest.raises(ValueError, match="one node"):
        executor.update_parameters(nodes=2)
