"""Status that the daemon publishes of itself and of its last look, and the file that everybody may read."""

from __future__ import annotations

import json
import logging
import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from freetrain import __version__
from freetrain.config import Config
from freetrain.daemon.log_output import Problems
from freetrain.daemon.state_directory import replace_file
from freetrain.slurm.parsing import expand_nodes

log = logging.getLogger(__name__)

PERIOD_S = 300.0
KEPT_S = 86_400.0


@dataclass(frozen=True, slots=True)
class RecentNodes:
    """Nodes on average over the looks of a period; there is none for a period without a look.

    Attributes:
        from_s: its start, UTC epoch seconds, a multiple of ``PERIOD_S``.
        looks: number of looks in it.
        idle_nodes: nodes that the site's own jobs did not use, lent ones included.
    """

    from_s: float
    looks: int
    idle_nodes: float
    lent_nodes: float


def with_look(
    recent: Iterable[RecentNodes], time_s: float, idle_nodes: int, lent_nodes: int
) -> tuple[RecentNodes, ...]:
    """The periods of the last day, oldest first, once a look has shown so many nodes."""
    from_s = time_s - time_s % PERIOD_S
    kept = [sample for sample in recent if time_s - KEPT_S < sample.from_s <= from_s]
    if not kept or kept[-1].from_s != from_s:
        return (*kept, RecentNodes(from_s, 1, idle_nodes, lent_nodes))
    before = kept.pop()
    looks = before.looks + 1

    def mean(old: float, latest: int) -> float:
        return round((old * before.looks + latest) / looks, 2)

    means = mean(before.idle_nodes, idle_nodes), mean(before.lent_nodes, lent_nodes)
    return (*kept, RecentNodes(from_s, looks, *means))


FORMAT: Literal["freetrain-status/1"] = "freetrain-status/1"

LONGEST = 300
"""Characters of a sentence of users' or Slurm's that are published."""

Phase = Literal["running", "stopped"]
NodeStanding = Literal["free", "lent", "asked for", "due back", "not lent"]


@dataclass(frozen=True, slots=True)
class Identity:
    """Identity of the daemon, with the settings that show what it does.

    Attributes:
        started_s: since when it runs, UTC epoch seconds.
        mode: observe, advise or act.
        launcher: steer or submit.
        partition: in which fragments run.
    """

    pid: int
    host: str
    version: str
    started_s: float
    mode: str
    launcher: str
    partition: str
    poll_s: float


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes of which the same holds.

    Attributes:
        nodes: their names, as ``c[01-04]``.
        trainer: that has them, or for which they are asked for; empty: none.
        why: they are due or not lent; empty: they are lent or free.
        until_s: when they will be wanted, UTC epoch seconds; None: unknown.
        verdict: the name of the reason in :data:`freetrain.lending.node_verdicts.NODE_VERDICTS`; empty: none, or
            Slurm has shown something else since.
    """

    nodes: str
    state: NodeStanding
    trainer: str = ""
    why: str = ""
    until_s: float | None = None
    verdict: str = ""

    @property
    def state_text(self) -> str:
        """The state in words, with the trainer that has them."""
        words = {"lent": "lent to", "due back": "due back from"}
        return f"{words.get(self.state, self.state)} {self.trainer}" if self.trainer else self.state


@dataclass(frozen=True, slots=True)
class TrainerStatus:
    """Status of a trainer.

    Attributes:
        id: of its array.
        state: as :class:`freetrain.core.known_trainer.TrainerState`.
        note: a sentence for its owner.
        fault: what is wrong with its own files, curve or submission; empty: nothing.
        verdict: why it has no nodes, or no more than it has, by its name in
            :data:`freetrain.lending.training_verdicts.TRAINING_VERDICTS`; empty: nothing is known.
        why: the same as a sentence without its end.
        lent: its nodes, as ``c[01-04]``; empty: none.
        asked: nodes on which Slurm was ordered to start it and has not yet.
        samples_done: as its progress says.
        ends: how often its fragments ended in which way.
        costs: what changes are taken to cost it, in seconds by name; empty: a filler, or its tag is wrong.
        account: to which it is charged; empty: unknown.
        lost_s: when work of its tasks was last lost that a freezer could not save, UTC epoch seconds; 0: never.
        speeds: feature or type of GPU that its owner names → how fast it is taken to be there.
        seen_rates: nodes → samples/s seen on so many, as at speed 1; empty: its owner names no kinds of nodes.
    """

    id: str
    owner: str
    state: str
    note: str = ""
    fault: str = ""
    verdict: str = ""
    why: str = ""
    lent: str = ""
    asked: str = ""
    samples_done: float = 0.0
    ends: Mapping[str, int] = field(default_factory=dict)
    costs: Mapping[str, float] = field(default_factory=dict)
    account: str = ""
    lost_s: float = 0.0
    speeds: Mapping[str, float] = field(default_factory=dict)
    seen_rates: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LookStatus:
    """Status of one look.

    Attributes:
        time_s: when Slurm was asked, UTC epoch seconds.
        took_s: how long it took, deciding and acting included.
        stopped_by: why nothing is lent at all; empty: nodes are lent.
        paused_by: why nothing more is lent, although what is lent stays; empty: nodes are lent.
        rejected: lines of Slurm's answers that were not understood.
        rejected_examples: the first of them.
        idle_nodes: number of nodes that the site's own jobs do not use, lent ones included.
        trainers: the first of them, in the order of submission.
        trainers_left_out: how many more there are.
        planned: waiting jobs of the site's for which Slurm and freetrain both have a plan.
        planned_differently: those of them for which the plans differ; the earlier one holds.
        calls: how often Slurm was asked or ordered something in the hour before.
        woken_s: when the daemon was last woken between two polls, UTC epoch seconds; None: never yet.
        cannot_wake: why slurmctld cannot wake it although it is to, with what mends that; empty: all is well.
        limited: job of the site's that waits for a limit in which fragments count → what is done for it.
        waiting: the first of the site's other jobs that wait → for what, and what lending has to do with it.
    """

    time_s: float
    took_s: float
    stopped_by: str = ""
    rejected: int = 0
    rejected_examples: tuple[str, ...] = ()
    nodes: tuple[NodeGroup, ...] = ()
    idle_nodes: int = 0
    trainers: tuple[TrainerStatus, ...] = ()
    trainers_left_out: int = 0
    planned: int = 0
    planned_differently: int = 0
    calls: int = 0
    woken_s: float | None = None
    paused_by: str = ""
    cannot_wake: str = ""
    limited: Mapping[str, str] = field(default_factory=dict)
    waiting: Mapping[str, str] = field(default_factory=dict)

    @property
    def lent_nodes(self) -> int:
        """Number of nodes that are lent; those that are asked for or due back are not among them."""
        return sum(len(expand_nodes(group.nodes)) for group in self.nodes if group.state == "lent")


@dataclass(frozen=True, slots=True)
class DaemonStatus:
    """Document that the daemon publishes.

    Attributes:
        written_s: when this was written, UTC epoch seconds.
        look: the last look that Slurm answered; None: there was none yet.
        silent_since_s: since when Slurm has not answered; None: it does.
        silent_why: why the last look failed, as a sentence; empty: Slurm answers.
        recent: idle and lent nodes in the last day.
        refused_settings: why the settings of the last reload were refused; empty: they were not.
    """

    daemon: Identity
    phase: Phase
    written_s: float
    look: LookStatus | None = None
    silent_since_s: float | None = None
    silent_why: str = ""
    recent: tuple[RecentNodes, ...] = ()
    refused_settings: str = ""
    format: Literal["freetrain-status/1"] = FORMAT


STATUS_NAME = "status.json"
_MOST_BYTES = 64_000_000


@cache
def _status() -> TypeAdapter[DaemonStatus]:
    return TypeAdapter(DaemonStatus)


class StatusUnknownError(Exception):
    """There is no status to be read; the message says why, as the end of a sentence."""


def read_status(directory: Path) -> DaemonStatus:
    """Status that the daemon that works in this directory published last.

    Raises:
        StatusUnknownError: there is none, or none that may be read or understood.
    """
    path = directory / STATUS_NAME
    try:
        with path.open("rb") as file:
            return _status().validate_json(file.read(_MOST_BYTES))
    except FileNotFoundError as error:
        raise StatusUnknownError(f"there is no {path}") from error
    except OSError as error:
        raise StatusUnknownError(f"{path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise StatusUnknownError(f"{path} is not a status of this freetrain's") from error


class StatusFile:
    """Publishes one daemon's status; where it cannot be written, that is logged once and the daemon goes on."""

    def __init__(
        self, directory: Path, poll_s: float, is_private: bool, clock_s: Callable[[], float] = time.time
    ) -> None:
        self._path = directory / STATUS_NAME
        self._poll_s = poll_s
        # Where the site hides the jobs of others from its users, they must not read of them here.
        self._permissions = 0o640 if is_private else 0o644
        self._clock_s = clock_s
        self._started_s = clock_s()
        self._problems = Problems()
        self._status: DaemonStatus | None = None
        self._refused = ""
        # The last day as the daemon before this one published it
        self._recent: tuple[RecentNodes, ...] = ()
        with suppress(StatusUnknownError):
            self._recent = read_status(directory).recent

    def looked(self, config: Config, look: LookStatus | None) -> None:
        """Publish a look that Slurm answered; None: there was none yet."""
        lend = config.lend
        daemon = Identity(
            pid=os.getpid(),
            host=socket.gethostname(),
            version=__version__,
            started_s=self._started_s,
            mode=lend.mode,
            launcher=lend.launcher,
            partition=config.slurm.partition,
            poll_s=self._poll_s,
        )
        if look is not None:
            self._recent = with_look(self._recent, look.time_s, look.idle_nodes, look.lent_nodes)
        now_s, refused = self._clock_s(), self._refused
        self._publish(DaemonStatus(daemon, "running", now_s, look, recent=self._recent, refused_settings=refused))

    def refused(self, why: str) -> None:
        """Publish that new settings were refused; empty: none were."""
        self._refused = why[:LONGEST]
        self._change(refused_settings=self._refused)

    def silent(self, why: str) -> None:
        """Publish that Slurm does not answer."""
        since_s = self._status.silent_since_s if self._status is not None else None
        self._change(silent_since_s=since_s or self._clock_s(), silent_why=why)

    def stopped(self) -> None:
        """Publish that the daemon ends."""
        self._change(phase="stopped")

    def _change(self, **changes: Any) -> None:
        if self._status is not None:
            self._publish(replace(self._status, written_s=self._clock_s(), **changes))

    def _publish(self, status: DaemonStatus) -> None:
        self._status = status
        try:
            replace_file(self._path, json.dumps(asdict(status)).encode(), self._permissions)
        except OSError as error:
            if self._problems.is_new(STATUS_NAME):
                log.warning(
                    "cannot write %s: %s; 'freetrain jobs' and 'nodes' know less", self._path, error.strerror
                )
        else:
            self._problems.is_new(STATUS_NAME, problem="")
