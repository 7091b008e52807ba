"""Reader of the site by Slurm's commands, a part at a time: it changes seldom, and a question costs a little."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf

from freetrain.core.node import Partition
from freetrain.slurm import queries
from freetrain.slurm.answers import whole_lines
from freetrain.slurm.commands import Command
from freetrain.slurm.errors import SlurmError, SlurmRefusedError, SlurmUnclearError
from freetrain.slurm.parsing import parse_partitions
from freetrain.slurm.settings import clock_ahead_s, parse_conf, parse_controller_s
from freetrain.slurm.site.facts import BY_QOS, Site, parse_associations, parse_qos

ALL_QUESTIONS = 4
"""Number of questions: settings, partitions, QOS, associations."""


class SiteReader:
    """Reader of the site, which keeps what Slurm last showed of it.

    Attributes:
        asked: number of questions so far.
        rejected: lines about partitions that were not understood.
    """

    def __init__(self, ask: Callable[[Command], str], clock_s: Callable[[], float]) -> None:
        self._ask = ask
        self._clock_s = clock_s
        self._as_of_s: dict[str, float] = {}
        self._site = Site({})
        self.asked = 0
        self.rejected: list[str] = []

    def partitions(self) -> Mapping[str, Partition]:
        """All partitions by name, as they were when they were last asked for.

        Raises:
            SlurmError: Slurm does not answer.
        """
        if "partitions" not in self._as_of_s:
            self._read("partitions")
        return self._site.nodes_of

    @property
    def shares_out_memory(self) -> bool:
        """Whether memory is shared out among the jobs on a node, as far as is known."""
        return not self._site.conf or self._site.settings.shares_out_memory

    def site(self, max_age_s: float, most_questions: int) -> Site:
        """See :meth:`freetrain.slurm.gateway.Gateway.site`."""
        read: set[str] = set()
        while len(read) < most_questions and (
            left := [what for what in self._wanted(max_age_s) if what not in read]
        ):
            oldest = max(left, key=self._age_s)
            if self._age_s(oldest) < max_age_s:
                break
            self._read(oldest)
            read.add(oldest)
        if not self._site.conf:
            self._read("settings")
        return self._site

    def _wanted(self, max_age_s: float) -> tuple[str, ...]:
        # Accounting may take long to say that it is away, so it is asked between only where QOS decide who is
        # preempted; associations, of which large sites have many, only when all is asked again.
        if not (self._site.conf and self._site.settings.has_accounting):
            return ("settings", "partitions")
        if max_age_s <= 0:
            return ("settings", "partitions", "qos", "associations")
        return ("settings", "partitions", "qos") if self._needs_qos else ("settings", "partitions")

    @property
    def _needs_qos(self) -> bool:
        # Where Slurm preempts by partition, QOS only say for how long a job is safe.
        return bool(self._site.conf) and self._site.settings.preempt_type == BY_QOS

    def _age_s(self, what: str) -> float:
        return self._clock_s() - self._as_of_s.get(what, -inf)

    def _read(self, what: str) -> None:
        self.asked += 1
        if what == "settings":
            asked_s = self._clock_s()
            text = self._ask(queries.ASK_SETTINGS)
            ahead_s = round(clock_ahead_s(parse_controller_s(text), asked_s, self._clock_s()))
            self._site = replace(self._site, conf=parse_conf(text), clock_ahead_s=ahead_s)
        elif what == "partitions":
            self._read_partitions(self._ask(queries.ASK_PARTITIONS))
        else:
            self._read_accounting(what)
        self._as_of_s[what] = self._clock_s()

    def _read_partitions(self, text: str) -> None:
        # A partition whose line is not understood is not gone: then those of before count.
        asked = " ".join(queries.ASK_PARTITIONS)
        lines, stray = whole_lines(text, "PartitionName=", asked)
        rows, unclear = parse_partitions(lines)
        self.rejected = stray + unclear
        if not rows:
            raise SlurmUnclearError(
                "scontrol show partition", f"nothing of it makes sense; first {self.rejected[0]}"
            )
        if not self.rejected or not self._site.partition_rows:
            self._site = replace(self._site, partition_rows=rows)

    def _read_accounting(self, what: str) -> None:
        # Where accounting does not answer, what it showed before still counts, or nothing depends on it.
        try:
            if what == "qos":
                rows, rejected = parse_qos(self._ask(queries.ASK_QOS))
                qos = rows if rows and not rejected else self._site.qos_rows
                problem = "; ".join(rejected) if rows else "it shows none"
                self._site = replace(self._site, qos_rows=qos, problem=problem)
                return
            text = self._ask(queries.ask_associations(self._site.settings.cluster))
            associations, rejected = parse_associations(text)
            known = {"problem": "; ".join(rejected)} if rejected else {"association_rows": associations}
            self._site = replace(self._site, **known)
        except SlurmError as error:
            self._site = replace(self._site, problem=error.what)
            needs_it = what == "qos" and self._needs_qos and self._site.qos_rows is None
            if needs_it and not isinstance(error, SlurmRefusedError):
                raise
