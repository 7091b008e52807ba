"""Servers that add up gradients: on which nodes they run, and whether this node has to run one."""

from __future__ import annotations

import logging
import math
import os
import re
import subprocess
import time
from collections.abc import Callable, Collection, Sequence
from enum import Enum

from freetrain.elastic.errors import DirectoryError
from freetrain.elastic.on_disk.directory import TrainerDirectory
from freetrain.elastic.on_disk.next_generation import View

log = logging.getLogger(__name__)

_LOOK_EVERY_S = 0.25
MOVES_BEFORE_S = 120.0
"""Time before the end of its node at which a server moves: to boot another one takes seconds, or a minute."""

_ASK_EVERY_S = 15.0
# After the nodes have changed the daemon's next look decides again where servers are to run.
_SOON_EVERY_S, _SOON_FOR_S = 3.0, 30.0
_ANSWER_TIMEOUT_S = 30.0
# How the comment begins. An empty answer is none: Slurm does not show the job to everybody, or not any more.
_TAG = "freetrain:"
# The comment of the trainer's job, as freetrain/slurm/tags.py writes it.
_COMMENT = re.compile(rf"{_TAG}.* \| servers on ([A-Za-z0-9._,-]+)")


class ServerDuty:
    """This node's share of the servers of all agents of a trainer: so many, or as freetrain says (None)."""

    def __init__(self, directory: TrainerDirectory, agent: str, servers: int | None) -> None:
        self._directory = directory
        self._agent = agent
        self._servers = servers
        self._named = ServerNodes(directory, agent) if servers is None else None
        self._due_s = 0.0

    def look(self, *, is_alone: bool) -> Hosting | None:
        """The decision on this node's server, which ends where it is alone; None: it is not time to look."""
        now_s = time.monotonic()
        if not is_alone and (self._servers == 0 or now_s < self._due_s):
            return None
        self._due_s = now_s + _LOOK_EVERY_S
        if is_alone:
            return Hosting.END
        view = self._directory.view()
        nodes = None if self._named is None else self._named.look(view)
        servers = self._servers or 0 if nodes is None else len(nodes)
        return hosting(view, self._agent, servers, time.time(), nodes)

    def close(self) -> None:
        """Ask no more."""
        if self._named is not None:
            self._named.close()


class Hosting(Enum):
    """An agent's decision on a server of its own."""

    RUN = "run one"
    KEEP = "keep the one that it has"
    END = "have none"


def hosting(view: View, agent: str, servers: int, now_s: float, nodes: Collection[str] | None = None) -> Hosting:
    """Whether this agent is to run one of at most so many servers.

    Servers run on the nodes that freetrain named. Where it named none (None) they run on the nodes that are
    expected to stay longest, and stay where they are until the end of their node is near. One that moves goes on
    until the one in its place is in a world.
    """
    hosts = _hosts(view, servers, now_s, nodes)
    if agent in hosts:
        return Hosting.RUN
    if not servers:
        return Hosting.END
    present = set(view.servers) & set(view.everyone)
    with_one = {view.members[id_].agent for id_ in present}
    return Hosting.END if hosts and set(hosts) <= with_one else Hosting.KEEP


def _hosts(view: View, servers: int, now_s: float, nodes: Collection[str] | None) -> Sequence[str]:
    """The agents that are to run a server each, of those whose workers are there and stay."""
    out = {*view.leaving, *view.refused}
    stay = [view.members[id_] for id_ in view.present if id_ not in out and view.members[id_].agent]
    with_one = {member.agent for member in stay if member.is_server}
    claims: dict[str, tuple[bool, bool, float, float]] = {}
    for member in stay:
        if not member.is_server and (nodes is None or member.node in nodes):
            ends_s = member.ends_s or math.inf
            # The least comes first: nodes that do not end soon, and of these the ones that have a server.
            claim = (ends_s - now_s < MOVES_BEFORE_S, member.agent not in with_one, -ends_s, member.joined_s)
            claims[member.agent] = min(claim, claims.get(member.agent, claim))
    return sorted(claims, key=lambda agent: (claims[agent], agent))[:servers]


class ServerNodes:
    """The nodes that freetrain has named for servers, as far as this agent knows.

    The agent of the first worker asks: every quarter of a minute, and every three seconds for a while when the
    trainer's nodes have changed. The answer stands in the trainer's directory, where the others read it. So
    Slurm is asked once for each training.
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
        """The nodes on which servers are to run now; returns at once."""
        first = next(iter(view.current or view.present), "")
        if first and view.members[first].agent == self._agent:
            self._ask(frozenset(view.members[id_].agent for id_ in view.present))
        return self._directory.server_nodes()

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
            self._read_answer(now_s)
        elif self._may_ask and now_s - self._asked_s >= every_s:
            self._asked_s = self._started_s = now_s
            # Not waited for: squeue may hang for long, and the agent has workers to look after.
            self._asking = _start_asking()
            self._may_ask = self._asking is not None

    def _read_answer(self, now_s: float) -> None:
        assert self._asking is not None
        if self._asking.poll() is None:
            if now_s - self._started_s > _ANSWER_TIMEOUT_S:
                self._asking.kill()
            return
        comment, _ = self._asking.communicate()
        status, self._asking = self._asking.returncode, None
        # Without the tag nothing is known: Slurm may hide the job from this user, or have forgotten it.
        if status != 0 or not comment.startswith(_TAG):
            return
        nodes = servers_in(comment)
        if frozenset(nodes) == self._directory.server_nodes():
            return
        try:
            self._directory.place_servers(nodes)
            log.info("servers are to run on %s", ", ".join(nodes) or "no node")
        except DirectoryError as error:  # tried again at the next answer
            log.warning("%s", error.what)


def servers_in(comment: str) -> tuple[str, ...]:
    """The nodes that the comment of a trainer's job names for servers."""
    found = _COMMENT.fullmatch(comment.strip())
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
