"""What is said of the site's jobs that had to wait for fragments."""

from __future__ import annotations

import logging

from freetrain.lending.blocked_jobs import MOST_TIMES, Blocked
from freetrain.slurm.parsing import fold_nodes

log = logging.getLogger(__name__)


def tell_blocked(blocked: Blocked) -> None:
    """Say what the last look found, and where nothing more is lent for it."""
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
