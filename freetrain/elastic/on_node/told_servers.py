"""On which nodes freetrain wants a trainer's servers: one of its agents asks Slurm, and tells the others."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import time
from collections.abc import Callable, Sequence

from freetrain.elastic.errors import DirectoryError
from freetrain.elastic.on_disk.directory import TrainerDirectory
from freetrain.elastic.on_disk.next_generation import View

log = logging.getLogger(__name__)

_ASK_EVERY_S = 15.0
_SOON_EVERY_S = 3.0
_SOON_FOR_S = 30.0
"""After the nodes have changed the daemon's next look decides anew where servers are to run."""
_PATIENCE_S = 30.0
_TAG = "freetrain:"
"""How the comment begins. An empty answer is none: Slurm does not show the job to everybody, or not any more."""
_TOLD = re.compile(rf"{_TAG}.* \| servers on ([A-Za-z0-9._,-]+)")
"""The comment of the trainer's job, as freetrain/slurm/tags.py writes it."""


class ToldServers:
    """What freetrain has said, as far as this agent knows.

    The agent of the first worker asks: every quarter of a minute, and every three seconds for a while when the
    trainer's nodes have changed. What it hears stands in the trainer's directory, where the others read it. So
    Slurm is asked once for each training.

    Args:
        directory: the trainer's.
        agent: who asks.
        clock_s: seconds that only go forward.
    """

    def __init__(
        self, directory: TrainerDirectory, agent: str, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._directory = directory
        self._agent = agent
        self._clock_s = clock_s
        self._asked_s = self._changed_s = float("-inf")
        self._agents: frozenset[str] = frozenset()
        self._started_s = 0.0
        self._may_ask = True
        self._asking: subprocess.Popen[str] | None = None

    def look(self, view: View) -> frozenset[str]:
        """The nodes on which servers are to run now; it waits for nobody."""
        first = next(iter(view.current or view.present), "")
        if first and view.members[first].agent == self._agent:
            self._ask(frozenset(view.members[id_].agent for id_ in view.present))
        return self._directory.told_servers()

    def close(self) -> None:
        """Ask no more."""
        if self._asking is not None:
            self._asking.kill()
            self._asking.communicate()

    def _ask(self, agents: frozenset[str]) -> None:
        now_s = self._clock_s()
        if agents != self._agents:
            self._agents, self._changed_s, self._asked_s = agents, now_s, float("-inf")
        every_s = _SOON_EVERY_S if now_s - self._changed_s < _SOON_FOR_S else _ASK_EVERY_S
        if self._asking is not None:
            self._hear(now_s)
        elif self._may_ask and now_s - self._asked_s >= every_s:
            self._asked_s = self._started_s = now_s
            self._asking = _start_asking()
            self._may_ask = self._asking is not None

    def _hear(self, now_s: float) -> None:
        assert self._asking is not None
        if self._asking.poll() is None:
            if now_s - self._started_s > _PATIENCE_S:
                self._asking.kill()
            return
        said, _ = self._asking.communicate()
        status, self._asking = self._asking.returncode, None
        if status == 0 and said.startswith(_TAG):
            self._tell(servers_in(said))

    def _tell(self, nodes: Sequence[str]) -> None:
        if frozenset(nodes) == self._directory.told_servers():
            return
        try:
            self._directory.tell_servers(nodes)
            log.info("servers are to run on %s", ", ".join(nodes) or "no node")
        except DirectoryError as error:  # tried again at the next answer
            log.warning("%s", error.what)


def servers_in(comment: str) -> tuple[str, ...]:
    """The nodes that the comment of a trainer's job names for servers."""
    found = _TOLD.fullmatch(comment.strip())
    return tuple(filter(None, found[1].split(","))) if found else ()


def _start_asking() -> subprocess.Popen[str] | None:
    """Ask for the comment of the job that stands for the trainer; None: Slurm cannot be asked here."""
    environment = os.environ
    array, task = environment.get("SLURM_ARRAY_JOB_ID"), environment.get("SLURM_ARRAY_TASK_ID")
    own = f"{array}_{task}" if array and task else environment.get("SLURM_JOB_ID", "")
    job = environment.get("FREETRAIN_FRAGMENT_OF") or own
    if not job:
        return None
    command = ("squeue", "--noheader", "--format=%k", f"--jobs={job}")
    try:
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, errors="replace"
        )
    except OSError as error:
        log.warning("cannot ask Slurm where servers are to run: %s", error.strerror)
        return None
