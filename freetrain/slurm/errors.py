"""Errors of Slurm. SlurmUnreachableError alone shows nothing about the cluster: unknown is not gone."""

from __future__ import annotations

import re

from freetrain.errors import ExitCode, FreetrainError


class SlurmError(FreetrainError):
    """Slurm did not do what was asked.

    Attributes:
        return_code: exit status of its command; None: it did not end.
        ends_with: the exit status of a command of freetrain's that fails for it.
    """

    return_code: int | None = None
    ends_with = ExitCode.FAILED

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what, hint, self.ends_with)


class SlurmUnreachableError(SlurmError):
    """Slurm does not answer: nothing is known, so nothing may be concluded or done."""

    ends_with = ExitCode.UNREACHABLE


class SlurmUnclearError(SlurmUnreachableError):
    """Slurm's answer cannot be understood: as if there were none, nothing may be concluded or done."""

    def __init__(self, asked: str, why: str) -> None:
        super().__init__(
            f"Slurm's answer to {asked} cannot be understood: {why}.",
            f"Run {asked} on this machine, and see what it prints.",
        )


class SlurmRateLimitError(SlurmUnreachableError):
    """Slurm limits how often it is asked, and did not do this: to ask again at once makes it worse."""


class SlurmBusyError(SlurmError):
    """Slurm cannot do this just now, and may in a second."""


class SlurmRefusedError(SlurmError):
    """Slurm refuses this for good: rights, a job that is gone, a value that cannot be."""


class SlurmMissingError(SlurmError):
    """Slurm's commands or its configuration are not on this machine, or not yet: file systems are mounted late."""

    ends_with = ExitCode.UNREACHABLE


class SlurmUnfitError(SlurmError):
    """Slurm is not as the settings need it, or not yet: it can be mended in Slurm while the settings stay."""

    ends_with = ExitCode.UNREACHABLE


class PyslurmUnusableError(SlurmError):
    """pyslurm cannot be used on this machine, by this account, or with this Slurm; the commands still can."""

    ends_with = ExitCode.CONFIGURATION


_UNREACHABLE = (
    "unable to contact slurm controller", "socket timed out", "connection refused", "zero bytes were trans",
    " is down",
)  # fmt: skip
_RATE_LIMITED = "rate limit exceeded"
_BUSY = ("try again", "not available right now", "temporarily unable", "temporarily unavailable", "in progress")
_SPEAKER = re.compile(r"^(sbatch|scancel|scontrol|squeue): (error: )?")
_MOST_LINES, _MOST_LETTERS = 3, 600
# Decoration, and what squeue prints of a field that it does not know and leaves empty: no command fails of it.
_NO_REASON = ("*", "squeue: error: Invalid job format specification")
_MISSING = ("slurm.conf", "unable to process configuration", "dns srv")


def explain(command: str, printed: str) -> SlurmError:
    """The error that a command's standard error stands for."""
    # A site's plug-in gives its reason in a line of its own, before Slurm's "Unspecified error".
    lines = [_SPEAKER.sub("", line) for line in printed.strip().splitlines() if not line.startswith(_NO_REASON)]
    lower, first = printed.lower(), "; ".join(lines[-_MOST_LINES:])[:_MOST_LETTERS] or "no reason given"
    if any(words in lower for words in _MISSING):
        return SlurmMissingError(
            f"{command} finds no Slurm configuration: {first}",
            "Set SLURM_CONF, or install slurm.conf on this machine.",
        )
    if _RATE_LIMITED in lower:
        return SlurmRateLimitError(
            f"Slurm limits how often it is asked, and refuses {command} for now: {first}.",
            "Wait a minute. If it goes on: see rl_enable in SlurmctldParameters, and rpc_queue.yaml.",
        )
    if any(words in lower for words in _UNREACHABLE):
        return SlurmUnreachableError(f"Slurm does not answer {command}: {first}", "See whether slurmctld runs.")
    if any(words in lower for words in _BUSY):
        return SlurmBusyError(f"Slurm cannot do {command} just now: {first}")
    return SlurmRefusedError(f"Slurm refuses {command}: {first}")
