"""Arrays of ordinary jobs: the commands that submit one and ask whether it is over, and what the answers mean."""

from __future__ import annotations

from collections.abc import Sequence

from freetrain.slurm.commands import Command

MOST_TASKS = 1000
"""``MaxArraySize`` is 1001 unless the site says otherwise."""


def submit_array(script: str, tasks: int, name: str, output: str, options: Sequence[str]) -> Command:
    """Submit a script as an array."""
    array = f"--array=0-{tasks - 1}"
    return ("sbatch", "--parsable", array, f"--job-name={name}", f"--output={output}", *options, script)


def ask_array(job: str) -> Command:
    """Which tasks of an array are not over yet."""
    return ("squeue", "--noheader", "--array", f"--jobs={job}", "--format=%t")


def is_over(status: int, printed: str, error_text: str) -> bool:
    """Whether the answer to :func:`ask_array` means that all its tasks are over; an error of Slurm's does not."""
    if status:
        return "Invalid job id" in error_text
    return not printed.strip()
