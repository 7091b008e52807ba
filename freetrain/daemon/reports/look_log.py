"""Lines of the log on a look: what the judge found, what was not understood, and what failed; each once."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from freetrain.core.decision import Decision
from freetrain.daemon.log_output import Problems
from freetrain.lending.back_off import BackOff
from freetrain.lending.blocked_jobs import MOST_TIMES, Blocked
from freetrain.lending.memory import Memory
from freetrain.loop.deciding import STAY
from freetrain.slurm.parsing import fold_nodes
from freetrain.store.ledger import Ledger

log = logging.getLogger(__name__)


def tell_findings(memory: Memory) -> None:
    """Say what the last look found: delays, nodes lost, and jobs that wait for fragments."""
    for harm in memory.meter.new:
        log.info(
            "job %s started %.1f s later because of %s: %.1f s until this was noticed, %.1f s until they had "
            "left, %.1f s until Slurm started it",
            harm.job, harm.delay_s, ", ".join(harm.fragments), harm.unnoticed_s, harm.leaving_s, harm.window_s,
        )  # fmt: skip
    for lost in memory.lost.new:
        log.error(
            "node %s is out of service (%s) since fragment %s could not be ended or cleared up after: when more "
            "than harm.allowed are lost within harm.within, nothing is lent",
            lost.node, lost.state_text, lost.fragment,
        )  # fmt: skip
    for node, owners in memory.suspects.new.items():
        log.warning(
            "node %s is lent to nobody for a while: programs of %s, which work on other nodes, failed there at "
            "once. See what is wrong with it",
            node, ", ".join(sorted(owners)),
        )  # fmt: skip
    _tell_blocked(memory.blocked)


def tell_unusable(decisions: Iterable[Decision], problems: Problems) -> None:
    """Say why decisions could not be used, unless that was so at the look before, too."""
    unusable = (decision for decision in decisions if decision.solver == STAY)
    for why in problems.new_among(
        "decisions", sorted({why for decision in unusable for why in decision.notes[:1]})
    ):
        log.error("%s", why)


def _tell_blocked(blocked: Blocked) -> None:
    for wait in blocked.new:
        log.error(
            "job %s of partition %s would wait for fragments on %s until their time limit: they are given "
            "back. No job may ever wait for them: Slurm's layout must be mended",
            wait.job, wait.partition, fold_nodes(wait.nodes),
        )  # fmt: skip
    for partition in sorted(blocked.new_partitions):
        if blocked.times[partition] == MOST_TIMES:
            log.error(
                "nothing more is lent on nodes of partition %s: its jobs waited for fragments %d times. Mend "
                "Slurm's layout, or reload or restart the daemon",
                partition, MOST_TIMES,
            )  # fmt: skip


def tell_back_off(now: BackOff | None, problems: Problems, ledger: Ledger, now_s: float) -> None:
    """Log a back-off that begins, changes its cause or ends, and write it into the audit; each once.

    None: there is no back-off. A back-off that becomes longer is not a change.
    """
    if not problems.has_changed("back-off", now.cause if now else ""):
        return
    if now is None:
        log.info("the back-off has ended")
    else:
        log.warning("nothing is lent, and what is lent is given back: %s", now.sentence)
    ledger.record_command(now_s, (), "back off", None, now.sentence if now else "ended")


_AGAIN_S = 600.0


class Outage:
    """Time without a look that succeeded, with the ``failures`` in a row; 0: the last look succeeded."""

    def __init__(self) -> None:
        self.failures = 0
        self._since_s: float | None = None
        self._logged_s = 0.0

    def goes_on(self, why: str) -> None:
        """Note that a look has failed."""
        self.failures += 1
        now_s = time.monotonic()
        if self._since_s is None:
            self._since_s = self._logged_s = now_s
            log.warning("%s Nothing is concluded from that, and nothing done.", why)
        elif now_s - self._logged_s >= _AGAIN_S:
            self._logged_s = now_s
            log.warning("no look has succeeded for %.0f s: %s", now_s - self._since_s, why)

    @property
    def lasts_s(self) -> float:
        """Seconds that it has lasted so far; 0: there is none."""
        return 0.0 if self._since_s is None else time.monotonic() - self._since_s

    def ends(self) -> None:
        """Note that a look has succeeded."""
        self.failures = 0
        if self._since_s is not None:
            log.info("looks succeed again after %.0f s", time.monotonic() - self._since_s)
            self._since_s = None


_MOST_AT_ONCE, _MOST_REMEMBERED = 10, 1000


class Rejects:
    """Lines of Slurm's answers that were not understood and have been reported."""

    def __init__(self) -> None:
        self._reported: dict[str, None] = {}

    def tell(self, lines: Iterable[str]) -> None:
        """Log the lines that are new, but only the first few if there are many."""
        new = [line for line in dict.fromkeys(lines) if line not in self._reported]
        for line in new[:_MOST_AT_ONCE]:
            log.warning("not understood, and left aside: %s", line)
        if len(new) > _MOST_AT_ONCE:
            log.warning("%d more lines of Slurm's were not understood", len(new) - _MOST_AT_ONCE)
        self._reported |= dict.fromkeys(new)
        # The oldest are forgotten, so that a Slurm that answers nonsense does not fill the memory.
        for line in list(self._reported)[: max(0, len(self._reported) - _MOST_REMEMBERED)]:
            del self._reported[line]
