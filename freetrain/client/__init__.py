"""freetrain from Python: its commands as functions with types.

``freetrain.Client`` submits trainings and fillers, lists them, explains them and waits for them. The commands
call the same functions, so that there is one way of doing each thing; errors are those that the commands print.

- ``submitting.py``: tags and sbatch commands, checked.
- ``trainings.py``: the rows of ``freetrain jobs``.
- ``explaining.py``: the sentences of ``freetrain explain``, on nodes, trainings and decisions.
- ``daemons_ledger.py``: the daemon's database, for accounts that may read it, and the time lent in a range.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Unpack

from freetrain.client.submitting import TagValues, hand_in, prepare, read_slurm
from freetrain.client.trainings import ListedTraining, find_trainings
from freetrain.config import Config, load_config
from freetrain.daemon.reports.standing import Standing, find_standing

__all__ = ["Client", "ListedTraining", "TagValues"]


class Client:
    """freetrain for Python programs: ``submit``, ``jobs`` and ``explain`` are the commands of these names.

    Errors are of the type :class:`freetrain.errors.FreetrainError`, with ``what`` and ``hint``.

    Args:
        config: the daemon's configuration; None: $FREETRAIN_CONFIG, else /etc/freetrain/freetrain.toml.
    """

    def __init__(self, config: str | os.PathLike[str] | None = None) -> None:
        self._path = None if config is None else Path(config)

    @cached_property
    def config(self) -> Config:
        """The settings of the daemon."""
        return load_config(self._path).config

    def standing(self) -> Standing:
        """State of the daemon: whether it is at work, and the result of its last look."""
        return find_standing(self.config)

    def submit(
        self,
        script: str | os.PathLike[str],
        *arguments: str,
        nodes: str | int | None = None,
        array: str | None = None,
        part: bool = False,
        sbatch: Sequence[str] = (),
        partition: str | None = None,
        **tag: Unpack[TagValues],
    ) -> str:
        """Hand a training or a filler to freetrain; the id of its job.

        Args:
            script: a batch script; an ordinary one for a filler.
            arguments: the script's own.
            nodes: minimum and maximum, as ``2-16``; a single number is the maximum.
            array: tasks of a filler, as ``0-199``; None: it is a training.
            part: whether each task takes the part of a node that it asks for.
            sbatch: more options of sbatch, each in one word.
            partition: another one than the site's for this.
            tag: more values of its tag.
        """
        slurm = read_slurm(self._path, partition, warnings.warn)
        return hand_in(prepare(slurm, script, arguments, tag, nodes=nodes, array=array, part=part, sbatch=sbatch))

    def jobs(self, standing: Standing | None = None) -> list[ListedTraining]:
        """The trainings and fillers of everybody, oldest first, without those of the past."""
        return find_trainings(self.config, standing or self.standing())

    def explain(self, what: str, standing: Standing | None = None) -> list[str]:
        """Sentences on a training, a node or one of the site's jobs, by its id or name."""
        # Here, since numpy, the policies and SQLAlchemy come with it.
        from freetrain.client.explaining import explain

        return list(explain(what, self.config, standing or self.standing()))

    def wait(self, *ids: str, timeout_s: float | None = None, poll_s: float = 30.0) -> list[ListedTraining]:
        """Wait until trainings or fillers are over, or need their owners; those that need them.

        Slurm is asked every ``poll_s`` seconds.

        Raises:
            TimeoutError: some were not over within ``timeout_s``.
        """
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left = [training for training in self.jobs() if training.id in ids and not training.is_over]
            if all(training.needs_its_owner for training in left):
                return left
            if deadline_s is not None and time.monotonic() + poll_s > deadline_s:
                raise TimeoutError(f"not over within {timeout_s} s: {', '.join(training.id for training in left)}")
            time.sleep(poll_s)
