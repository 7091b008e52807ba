"""Lends nothing where Slurm's layout lets the site's jobs wait for fragments; says why, and what mends it."""

from __future__ import annotations

import logging
from dataclasses import replace

from freetrain.config import Config
from freetrain.core.cluster import Snapshot
from freetrain.daemon.admission.names import missing_partition
from freetrain.slurm.errors import SlurmUnfitError
from freetrain.slurm.finding import Finding, describe
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.layout import judge
from freetrain.slurm.layout_facts import SlurmLayout
from freetrain.slurm.layout_question import Question
from freetrain.slurm.submissions import find_submissions

log = logging.getLogger(__name__)

_MAX_AGE_S = 180.0
"""Slurm's layout changes when an admin changes it."""

ALL_QUESTIONS = 3


Owners = frozenset[tuple[str, str]]
"""Users with the accounts that their trainings are charged to."""


def question_of(config: Config, layout: SlurmLayout, snapshot: Snapshot) -> Question:
    """What is judged when settings are taken or checked."""
    submissions = find_submissions(snapshot.jobs, config.slurm.queue).values()
    owners = frozenset((one.owner, one.tasks[0].account) for one in submissions)
    return Question(layout, config.slurm.queue, config.harm.limit, owners)


def layout_age_s(poll_s: float) -> float:
    """How old the layout may be; at least every second look has a question left to ask when Slurm plans."""
    return max(_MAX_AGE_S, 2 * ALL_QUESTIONS * poll_s)


class LayoutGuard:
    """Judges Slurm's layout when settings are taken, and now and then while they count.

    Args:
        gateway: the way to Slurm.
        poll_s: from one look to the next.

    Attributes:
        exempt_s: for how long after its start Slurm may preempt no fragment, as of the last question.
    """

    def __init__(self, gateway: Gateway, poll_s: float) -> None:
        self._gateway = gateway
        self._max_age_s = layout_age_s(poll_s)
        self._judged: tuple[Question, list[Finding]] | None = None
        self._said: frozenset[Finding] = frozenset()
        self._problem = ""
        self._last: SlurmLayout | None = None
        self._ask_now = 0
        self.exempt_s = 0.0

    def check(self, config: Config, snapshot: Snapshot) -> None:
        """Refuse settings that would lend in an unsafe layout; say what is not as it should be otherwise.

        Raises:
            SlurmUnfitError: there is no such partition, or what is to be mended before anything is lent.
            SlurmError: Slurm does not answer.
        """
        layout = self._gateway.layout(0.0, ALL_QUESTIONS)
        if missing := missing_partition(config, layout):
            raise SlurmUnfitError(missing.what, f"Name one of them, or add it to slurm.conf: {missing.mend}")
        findings = self._judge(question_of(config, layout, snapshot))
        unsafe = [finding for finding in findings if finding.is_unsafe]
        if unsafe and config.lend.mode == "act":
            raise SlurmUnfitError(
                "Slurm's layout would let the site's jobs wait for fragments, so lend.mode = \"act\" is refused:"
                + describe(findings),
                "Apply what stands below each finding; what scontrol changes belongs into slurm.conf, too. "
                "See docs/daemon.md.",
            )
        self._last = replace(layout, clock_ahead_s=0.0)
        self._say(findings, layout.problem, "warning")

    def why_not(self, config: Config, owners: Owners) -> str:
        """Why nothing may be lent at the moment; empty: it may. At most one question to Slurm.

        Args:
            config: the settings that count.
            owners: of the trainings there are, with their accounts.

        Raises:
            SlurmError: Slurm does not answer.
        """
        hurries, self._ask_now = self._ask_now > 0, max(0, self._ask_now - 1)
        layout = self._gateway.layout(0.0 if hurries else self._max_age_s, 1)
        if config.slurm.queue.missing(layout.partitions):
            return ""  # the look itself says so
        question = Question(layout, config.slurm.queue, config.harm.limit, owners)
        self.exempt_s = question.exempt_s
        findings = self._judge(question)
        unsafe = [finding for finding in findings if finding.is_unsafe]
        acts = config.lend.mode == "act"
        self._say(findings, layout.problem, "error" if acts else "warning")
        return f"Slurm's layout is unsafe: {unsafe[0].what.removesuffix('.')}" if unsafe and acts else ""

    def has_changed(self) -> bool:
        """Whether the layout is another one than when this was last asked, whatever the clocks say."""
        before, self._last = self._last, replace(self._gateway.layout(float("inf"), 0), clock_ahead_s=0.0)
        return before is not None and before != self._last

    def ask_now(self) -> None:
        """Look at all of the layout at the next looks: something in it is not as it seems."""
        self._ask_now = ALL_QUESTIONS

    def _judge(self, question: Question) -> list[Finding]:
        """As the last time, unless something has changed: this is asked at each look."""
        if self._judged is None or self._judged[0] != question:
            self._judged = question, judge(question)
        return self._judged[1]

    def _say(self, findings: list[Finding], problem: str, level: str) -> None:
        """Each finding once, and when the last unsafe one is gone."""
        now = frozenset(findings)
        for finding in findings:
            if finding not in self._said:
                number = logging.ERROR if finding.is_unsafe and level == "error" else logging.WARNING
                log.log(number, "%s Mend it with: %s", finding.what, "; ".join(finding.mend.splitlines()))
        if any(one.is_unsafe for one in self._said) and not any(one.is_unsafe for one in now):
            log.info("Slurm's layout is safe again")
        if problem and problem != self._problem:
            log.warning(
                "Slurm's accounting does not say which QOS there are; what it said before counts: %s", problem
            )
        self._said, self._problem = now, problem
