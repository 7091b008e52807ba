"""Reading what fragments are made from, and becoming who submitted it."""

from __future__ import annotations

import os
import pwd
import re

from freetrain.slurm import queries
from freetrain.slurm.commands import Command
from freetrain.slurm.errors import SlurmRefusedError
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.submitting import Pattern

_WORK_DIRECTORY = re.compile(r"\bWorkDir=(.+?) (?:(?:Admin|System)?Comment|Extra|StdErr)=")
_ACCOUNT, _QOS = re.compile(r"\bAccount=(\S+)"), re.compile(r"\bQOS=(\S+)")


class PatternReader:
    """Asks Slurm once for each submission."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._known: dict[str, Pattern] = {}

    def __call__(self, submission: str) -> Pattern:
        """The pattern.

        Raises:
            SlurmRefusedError: Slurm keeps no script of it, or does not show it.
        """
        if submission not in self._known:
            script = self._gateway.perform(queries.ask_script(submission))
            facts = self._gateway.perform(queries.show_job(submission))
            directory = _found(_WORK_DIRECTORY, facts)
            if not directory:
                raise SlurmRefusedError(f"Slurm does not say where job {submission} was submitted.")
            self._known[submission] = Pattern(script, directory, _found(_ACCOUNT, facts), _found(_QOS, facts))
        return self._known[submission]


def _found(what: re.Pattern[str], facts: str) -> str:
    """Empty where Slurm says nothing, or that there is nothing."""
    match = what.search(facts)
    return "" if match is None or match[1] in ("(null)", "N/A") else match[1]


def act_as(user: str) -> Command | None:
    """What makes a command run as this user with their groups; None: this process may not."""
    try:
        known = pwd.getpwnam(user)
    except KeyError:
        return None
    if known.pw_uid == os.geteuid():
        return ()
    if os.geteuid() != 0:
        return None
    return ("setpriv", f"--reuid={known.pw_uid}", f"--regid={known.pw_gid}", "--init-groups")
