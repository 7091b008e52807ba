"""Publishing the daemon's status: a file in its directory that everybody may read, replaced at once."""

from __future__ import annotations

import json
import logging
import os
import socket
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from freetrain import __version__
from freetrain.config import Config
from freetrain.daemon.reports.status import LONGEST, DaemonStatus, Identity, LookStatus, RecentNodes, with_look
from freetrain.daemon.state_directory import replace_file

log = logging.getLogger(__name__)

STATUS_NAME = "status.json"
_MOST_BYTES = 64_000_000


@cache
def _status() -> TypeAdapter[DaemonStatus]:
    return TypeAdapter(DaemonStatus)


class StatusUnknownError(Exception):
    """There is no status to be read; the message says why, as the end of a sentence."""


def read_status(directory: Path) -> DaemonStatus:
    """What the daemon that works in this directory published last.

    Raises:
        StatusUnknownError: nothing, or nothing that may be read or understood.
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


def _recent_in(directory: Path) -> tuple[RecentNodes, ...]:
    """What the daemon before this one published of the last day."""
    try:
        return read_status(directory).recent
    except StatusUnknownError:
        return ()


class StatusFile:
    """Publishes one daemon's status; where it cannot be written, that is logged once and the daemon goes on.

    Args:
        directory: the daemon's.
        poll_s: how often it looks.
        is_private: whether the site hides the jobs of others from its users: only the group may read it then.
        clock_s: UTC epoch seconds.
    """

    def __init__(
        self, directory: Path, poll_s: float, is_private: bool, clock_s: Callable[[], float] = time.time
    ) -> None:
        self._path = directory / STATUS_NAME
        self._poll_s = poll_s
        self._permissions = 0o640 if is_private else 0o644
        self._clock_s = clock_s
        self._started_s = clock_s()
        self._failed = False
        self._status: DaemonStatus | None = None
        self._recent = _recent_in(directory)
        self._refused = ""

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
        """Publish that new settings were refused; empty: there are none that were."""
        self._refused = why[:LONGEST]
        if self._status is not None:
            self._publish(replace(self._status, written_s=self._clock_s(), refused_settings=self._refused))

    def silent(self, why: str) -> None:
        """Publish that Slurm does not answer."""
        if self._status is not None:
            now_s = self._clock_s()
            since_s = self._status.silent_since_s or now_s
            self._publish(replace(self._status, written_s=now_s, silent_since_s=since_s, silent_why=why))

    def stopped(self) -> None:
        """Publish that the daemon ends."""
        if self._status is not None:
            self._publish(replace(self._status, phase="stopped", written_s=self._clock_s()))

    def _publish(self, status: DaemonStatus) -> None:
        self._status = status
        try:
            replace_file(self._path, json.dumps(asdict(status)).encode(), self._permissions)
        except OSError as error:
            if not self._failed:
                log.warning(
                    "cannot write %s: %s; 'freetrain jobs' and 'nodes' know less", self._path, error.strerror
                )
            self._failed = True
        else:
            self._failed = False
