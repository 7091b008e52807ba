"""Reads Slurm's layout by its commands, a part at a time: it changes seldom, and each question costs a little."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf

from freetrain.core.node import Partition
from freetrain.slurm import queries
from freetrain.slurm.answers import whole_lines
from freetrain.slurm.commands import Command
from freetrain.slurm.errors import SlurmError, SlurmRefusedError, SlurmUnclearError
from freetrain.slurm.layout_facts import PartitionRules, Qos, SlurmLayout, parse_partition_rules, parse_qos
from freetrain.slurm.layout_question import BY_QOS
from freetrain.slurm.settings import SlurmSettings, clock_ahead_s, parse_settings, parse_told_s


class LayoutReader:
    """Keeps what Slurm last said about its layout.

    Args:
        ask: gives Slurm a command; what it printed.
        clock_s: UTC epoch seconds.

    Attributes:
        asked: how many questions there were.
        rejected: lines about partitions that were not understood.
    """

    def __init__(self, ask: Callable[[Command], str], clock_s: Callable[[], float]) -> None:
        self._ask = ask
        self._clock_s = clock_s
        self._as_of_s: dict[str, float] = {}
        self._settings: SlurmSettings | None = None
        self._partitions: Mapping[str, PartitionRules] = {}
        self._qos: Mapping[str, Qos] | None = None
        self._problem = ""
        self._clock_ahead_s = 0.0
        self.asked = 0
        self.rejected: list[str] = []

    def partitions(self) -> dict[str, Partition]:
        """All partitions by name, as they were when they were last asked for.

        Raises:
            SlurmError: Slurm does not answer.
        """
        if "partitions" not in self._as_of_s:
            self._read("partitions")
        return {name: rules.partition for name, rules in self._partitions.items()}

    @property
    def shares_out_memory(self) -> bool:
        """Whether memory is shared out among the jobs on a node, as far as is known."""
        return self._settings is None or self._settings.shares_out_memory

    def layout(self, max_age_s: float, most_questions: int) -> SlurmLayout:
        """See :meth:`freetrain.slurm.gateway.Gateway.layout`."""
        read: set[str] = set()
        while len(read) < most_questions and (
            left := [what for what in self._wanted(max_age_s) if what not in read]
        ):
            oldest = max(left, key=self._age_s)
            if self._age_s(oldest) < max_age_s:
                break
            self._read(oldest)
            read.add(oldest)
        if self._settings is None:
            self._read("settings")
        assert self._settings is not None
        return SlurmLayout(self._settings, self._partitions, self._qos, self._problem, self._clock_ahead_s)

    def _wanted(self, max_age_s: float) -> tuple[str, ...]:
        """What to know; first the settings, which say whether there is more to ask.

        Where nothing but exempt times depends on QOS, accounting is asked when all is asked anew, and never
        between: it may be slow to say that it is away.
        """
        has_accounting = self._settings is not None and self._settings.has_accounting
        wants_qos = self._needs_qos or (has_accounting and max_age_s <= 0)
        return ("settings", "partitions", "qos") if wants_qos else ("settings", "partitions")

    @property
    def _needs_qos(self) -> bool:
        """Whether QOS decide what is preempted; elsewhere they only say for how long it is not."""
        return self._settings is not None and self._settings.preempt_type == BY_QOS

    def _age_s(self, what: str) -> float:
        return self._clock_s() - self._as_of_s.get(what, -inf)

    def _read(self, what: str) -> None:
        self.asked += 1
        if what == "settings":
            self._read_settings()
        elif what == "partitions":
            self._read_partitions(self._ask(queries.ask_partitions()))
        else:
            self._read_qos()
        self._as_of_s[what] = self._clock_s()

    def _read_settings(self) -> None:
        asked_s = self._clock_s()
        text = self._ask(queries.ask_settings())
        self._settings = parse_settings(text)
        self._clock_ahead_s = round(clock_ahead_s(parse_told_s(text), asked_s, self._clock_s()))

    def _read_partitions(self, text: str) -> None:
        """A partition whose line is not understood is not gone: then those of before count."""
        asked = " ".join(queries.ask_partitions())
        lines, stray = whole_lines(text, "PartitionName=", asked)
        partitions, unclear = parse_partition_rules(lines)
        self.rejected = stray + unclear
        if not partitions:
            raise SlurmUnclearError(
                "scontrol show partition", f"nothing of it makes sense; first {self.rejected[0]}"
            )
        if not self.rejected or not self._partitions:
            self._partitions = partitions

    def _read_qos(self) -> None:
        """Where accounting does not answer, what it said before still counts, or nothing depends on it."""
        try:
            qos, rejected = parse_qos(self._ask(queries.ask_qos()))
            self._problem = "; ".join(rejected) if qos else "it shows none"
            self._qos = qos if qos and not rejected else self._qos
        except SlurmError as error:
            self._problem = error.what
            if self._qos is None and self._needs_qos and not isinstance(error, SlurmRefusedError):
                raise
