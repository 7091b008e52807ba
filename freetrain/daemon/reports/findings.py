"""Lines of the log on what the judge found out."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from freetrain.core.decision import Decision
from freetrain.lending.blocked_jobs import MOST_TIMES, Blocked
from freetrain.lending.memory import Memory
from freetrain.loop.deciding import STAY
from freetrain.slurm.parsing import fold_nodes

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


def tell_unusable(decisions: Iterable[Decision], before: frozenset[str]) -> frozenset[str]:
    """Say why decisions could not be used, unless that was so at the look before, too.

    Returns:
        What is to be handed in as ``before`` at the next look.
    """
    unusable = (decision for decision in decisions if decision.solver == STAY)
    now = frozenset(why for decision in unusable for why in decision.notes[:1])
    for why in sorted(now - before):
        log.error("%s", why)
    return now


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
