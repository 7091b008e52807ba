"""Who is alive: by the process table on the same machine, by heartbeats everywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from freetrain.elastic.on_disk.members import Member, start_ticks, this_host


class Liveness:
    """Watches members' signs of life.

    Hosts' clocks are never compared: a member is lost when its heartbeat has not *changed* for ``lost_after_s`` on
    the observer's own clock. An observer that was stopped itself starts counting anew, or it would give up
    everybody else for lost when it wakes up.
    """

    def __init__(self, last_beat: Callable[[str], str], lost_after_s: float, now_s: Callable[[], float]) -> None:
        self._last_beat = last_beat
        self._lost_after_s = lost_after_s
        self._now_s = now_s
        self._seen: dict[str, tuple[str, float]] = {}
        self._looked_s = now_s()

    def forget(self) -> None:
        """Start counting anew: who cannot leave a sign of life itself must not miss those of the others."""
        self._seen.clear()

    def dead_here(self, members: Iterable[Member]) -> list[str]:
        """Those whose process on this machine has ended; costs microseconds each."""
        return [
            member.id
            for member in members
            if member.host == this_host() and start_ticks(member.pid) != member.started_ticks
        ]

    def silent(self, members: Iterable[str]) -> list[str]:
        """Those whose heartbeat has not changed for too long."""
        now_s = self._now_s()
        if now_s - self._looked_s > self._lost_after_s / 2:
            self._seen.clear()
        self._looked_s = now_s
        return [member for member in members if self._silence_s(member, now_s) > self._lost_after_s]

    def _silence_s(self, member: str, now_s: float) -> float:
        beat = self._last_beat(member)
        seen = self._seen.get(member)
        if seen is None or seen[0] != beat:
            self._seen[member] = (beat, now_s)
            return 0.0
        return now_s - seen[1]
