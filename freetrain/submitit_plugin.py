"""submitit's executor for freetrain: ``AutoExecutor(folder, cluster="freetrain")``, found by its entry point.

Functions run as the tasks of a filler, so that idle nodes do them:

1. ``FreetrainExecutor`` hands all functions of a batch in as one held array, by the code of ``freetrain submit``.
2. On a node ``FreetrainJobEnvironment`` heeds SIGTERM: it saves what the function's ``checkpoint`` returns, and
   leaves. freetrain runs the task again, elsewhere, from what was saved.
3. ``FreetrainWatcher`` knows which ends of a task are final, so that ``job.result()`` waits for the others.
"""

from __future__ import annotations

import copy
import re
import signal
import sys
import uuid
import warnings
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

from submitit.core.job_environment import SignalHandler
from submitit.core.utils import DelayedSubmission, FailedSubmissionError, JobPaths, pickle_load
from submitit.slurm.slurm import SlurmExecutor, SlurmInfoWatcher, SlurmJob, SlurmJobEnvironment

from freetrain.errors import ExitCode

_TAG = ("save", "shortest", "boot", "start", "notice", "weight")
"""Keys of the tag that an owner may set for tasks, as ``freetrain_save=300`` (docs/users/fillers.md)."""
_HAD_THEIR_TURN = ("COMPLETED", "CANCELLED", "DEADLINE")
_FAILED = ("FAILED", "OUT_OF_MEMORY")
_LEFT = f"{ExitCode.TRY_AGAIN}:0"
"""Exit code of a task that leaves on SIGTERM: with a grace time Slurm takes that for a failure of its own."""


class FreetrainWatcher(SlurmInfoWatcher):
    """States of tasks as accounting has them; a task that only lost its node is not done."""

    def _make_command(self) -> list[str] | None:
        arrays = sorted({job.partition("_")[0] for job in self._registered - self._finished})
        fields = "JobID,State,NodeList,ElapsedRaw,ExitCode"
        return ["sacct", "--duplicates", "--parsable2", "-o", fields, "-j", ",".join(arrays)] if arrays else None

    def read_info(self, string: bytes | str) -> dict[str, dict[str, str]]:
        """The newest run of each task, and the number of its runs that have failed."""
        text = string if isinstance(string, str) else string.decode()
        rows = (line.split("|") for line in text.splitlines())
        failures = Counter(job for job, state, *_, code in rows if state in _FAILED and code != _LEFT)
        return {job: {**run, "Failures": str(failures[job])} for job, run in super().read_info(text).items()}

    def is_done(self, job_id: str, mode: str = "standard") -> bool:
        """Whether the task will not run again; one that fails at once, for the first time, is tried elsewhere."""
        # Here, since numpy comes with it, which a task may do without.
        from freetrain.lending.causes import AT_ONCE_S

        run = self.get_info(job_id, mode=mode)
        state = run.get("State", "").partition(" ")[0]
        if state in _FAILED and run["ExitCode"] == _LEFT:
            return False
        if state in _FAILED:
            return int(run["Failures"]) > 1 or int(run["ElapsedRaw"] or 0) > AT_ONCE_S
        return state in _HAD_THEIR_TURN


class FreetrainJob(SlurmJob[Any]):
    """A function that was handed in: a task of a filler."""

    watcher = FreetrainWatcher(delay_s=60)


class FreetrainJobEnvironment(SlurmJobEnvironment):
    """Environment of a function on the node that is lent to it."""

    def _handle_signals(self, paths: JobPaths, submission: DelayedSubmission) -> None:
        """Save and leave on SIGTERM; the other signals of preemption only announce it."""
        # A task that was requeued after it had done its work must not do it twice.
        if paths.result_pickle.exists() and pickle_load(paths.result_pickle)[0] == "success":
            sys.exit(0)
        for pickle in (paths.submitted_pickle, paths.result_pickle):
            # What was cut off while it saved leaves this behind, and submitit refuses to save beside it.
            pickle.with_suffix(f"{pickle.suffix}.save_tmp").unlink(missing_ok=True)
        handler = _SaveOnSignal(self, paths, submission)
        signal.signal(signal.SIGTERM, handler.checkpoint_and_exit)
        signal.signal(signal.SIGCONT, handler.bypass)
        signal.signal(self._usr_sig(), handler.bypass)


class _SaveOnSignal(SignalHandler):
    """Handler that saves a function's work and ends with a status that srun passes on: submitit's becomes 127."""

    def checkpoint_and_exit(self, signum: int, frame: FrameType | None = None) -> None:
        # Slurm sends SIGTERM again at the end of a grace time, and srun passes on its own.
        signal.signal(signal.SIGTERM, self.bypass)
        super().checkpoint_and_exit(signum, frame)

    def _exit(self) -> None:
        sys.exit(ExitCode.TRY_AGAIN)


class FreetrainExecutor(SlurmExecutor):
    """Hands functions to freetrain. Parameters are those of Slurm's executor, and those of a filler's tag.

    ``freetrain_save=300`` says how often a function saves by itself, ``freetrain_part=True`` that it takes the
    part of a node that it asks for. A function with a ``checkpoint`` method is taken to save on SIGTERM
    (``notice``).
    """

    job_class = FreetrainJob

    def __init__(self, folder: Path | str, *arguments: Any, **named: Any) -> None:
        super().__init__(folder, *arguments, **named)
        self._tag: dict[str, Any] = {}
        self._part = False

    @classmethod
    def affinity(cls) -> int:
        """Affinity below that of Slurm's executor: this one is taken only where it is named."""
        slurms: int = super().affinity()
        return min(1, slurms)

    @classmethod
    def _valid_parameters(cls) -> set[str]:
        return {*super()._valid_parameters(), *_TAG, "part"}

    def _internal_update_parameters(self, **given: Any) -> None:
        if given.get("nodes", 1) != 1:
            raise ValueError(
                "Each function has one node here; 'freetrain submit --task-nodes' gives tasks several."
            )
        self._part = given.pop("part", self._part)
        self._tag |= {name: given.pop(name) for name in _TAG if name in given}
        super()._internal_update_parameters(**given)

    def _internal_process_submissions(self, delayed_submissions: list[DelayedSubmission]) -> list[FreetrainJob]:
        """Submit one array of them, even of one: a filler is an array."""
        array = copy.copy(self)
        array.parameters = {**self.parameters, "map_count": len(delayed_submissions)}
        array._tag = {"notice": all(map(_can_save, delayed_submissions)), **self._tag}
        pickles = list(map(self._dump, delayed_submissions))
        submitted = array._submit_command(self._submitit_command_str)
        jobs = [
            FreetrainJob(self.folder, f"{submitted.job_id}_{number}", range(submitted.num_tasks))
            for number in range(len(pickles))
        ]
        # The array is held until freetrain lends it nodes: no task can miss its function.
        for job, pickle in zip(jobs, pickles, strict=True):
            job.paths.move_temporary_file(pickle, "submitted_pickle")
        return jobs

    def _dump(self, function: DelayedSubmission) -> Path:
        folder: Path = JobPaths.get_first_id_independent_folder(self.folder)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{uuid.uuid4().hex}.pkl"
        function.set_timeout(self.parameters.get("time", 5), self.max_num_timeout)
        function.dump(path)
        return path

    def _make_submission_file_text(self, command: str, uid: str) -> str:
        text = super()._make_submission_file_text(command, uid)
        # The signal would end a task at once in a hole that is shorter than its delay: SIGTERM says when to leave.
        text = re.sub(r"^#SBATCH --signal=.*\n", "", text, flags=re.MULTILINE)
        return text.replace("SUBMITIT_EXECUTOR=slurm", "SUBMITIT_EXECUTOR=freetrain")

    def _make_submission_command(self, submission_file_path: Path) -> list[str]:
        # Here, since a task, which imports this file, too, needs none of it.
        from freetrain.client.submitting import prepare, read_slurm

        slurm = read_slurm(None, self.parameters.get("partition"), warnings.warn)
        at_once = self.parameters.get("array_parallelism")
        array = f"0-{self.parameters['map_count'] - 1}" + (f"%{at_once}" if at_once else "")
        return list(prepare(slurm, submission_file_path, (), self._tag, array=array, part=self._part).command)  # type: ignore[arg-type]  # keys of the tag

    @staticmethod
    def _get_job_id_from_submission_command(string: bytes | str) -> str:
        text = string if isinstance(string, str) else string.decode()
        if (found := re.search(r"\d+", text)) is None:
            raise FailedSubmissionError(f"sbatch named no job, but {text!r}: look with 'squeue --me'.")
        return found[0]


def _can_save(function: DelayedSubmission) -> bool:
    return any(hasattr(function.function, name) for name in ("checkpoint", "__submitit_checkpoint__"))
