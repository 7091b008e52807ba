"""Recorded answers of Slurm's commands, damaged by chance: each by itself, and all of a look together."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from freetrain.daemon.admission.sole_lender import find_marks
from freetrain.slurm import queries
from freetrain.slurm.answers import whole_answer
from freetrain.slurm.asking import parse_requests
from freetrain.slurm.command_line import CommandLine
from freetrain.slurm.commands import Command
from freetrain.slurm.parsing import expand_nodes, fold_nodes, parse_amount, parse_cancellers, parse_preemptions
from freetrain.slurm.settings import parse_rights
from freetrain.slurm.site.harm import Premise, judge_harm
from freetrain.slurm.site.terms import judge_terms
from freetrain.slurm.submissions import find_submissions
from tests.fuzzing.damage import damaged_text
from tests.fuzzing.running import Parser, Trial
from tests.slurm.test_answers import JOBS_HEADER, NEEDS_HEADER, QUEUE, TABLES, WITH_AN_END, Parse, recorded

LISTS = (
    "c[01-16,20]", "c[1-3]n[01-04],x7", "r1-[2-3]", "c01", "(null)", "n001,@gpu", "rack[1-2]-node[001-100]",
    "a[1-20000],b[1-20000]",
)  # fmt: skip
AMOUNTS = ("cpu=4,mem=16G,gres/gpu=1", "cpu=2", "mem=1.5T", "gres/gpu:a100=2,cpu=8")
CANCELLED = "CANCELLED by 1000\nCOMPLETED\nCANCELLED by 0\n"
PREEMPTED = "JOBID                                   PREEMPT_TIME\n7_1   1790000000\n7_2   N/A\n"
RIGHTS = "Operator|ml,bio,\n"


@cache
def _texts(kind: str) -> tuple[str, ...]:
    """The recorded answers of a kind."""
    return tuple(path.read_text(errors="replace") for path in recorded([kind]))


def _answer(command: Command, header: str, parse: Parse, kind: str) -> Trial:
    """Damages one answer to one question."""

    def trial(random: random.Random, folder: Path) -> None:
        parse(whole_answer(command, damaged_text(random, header + random.choice(_texts(kind)))))

    return trial


def _text(examples: tuple[str, ...], parse: Parse) -> Trial:
    """Damages one of these texts."""

    def trial(random: random.Random, folder: Path) -> None:
        parse(damaged_text(random, random.choice(examples)))

    return trial


def requests(random: random.Random, folder: Path) -> None:
    """What tasks ask for, and the nodes that they exclude."""
    asked, excluded = (random.choice(_texts(kind)) for kind in ("needs", "excluded"))
    parse_requests(damaged_text(random, asked), damaged_text(random, excluded), random.choice([0, 1024]))


class DamagedSlurm:
    """A Slurm of recorded answers, each of which may be damaged."""

    _KINDS: Mapping[str, str] = {
        "nodes": "nodes_in_parts", "reservation": "reservation", "partition": "partition", "config": "config",
        "qos": "qos", "assoc": "assoc",
    }  # fmt: skip

    def __init__(self, random: random.Random) -> None:
        self._random = random

    def __call__(
        self, command: Command, stdin: str, timeout_s: float, environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """See :class:`freetrain.slurm.command_line.Run`."""
        text = self._recorded(command)
        if self._random.random() < 0.3:
            text = damaged_text(self._random, text)
        return subprocess.CompletedProcess(command, 0, text, "")

    def _recorded(self, command: Command) -> str:
        header = ""
        if command[0] == "squeue" and "-O" in command:
            header, kind = NEEDS_HEADER, "waiting_needs"
        elif command[0] == "squeue":
            mark = command[command.index("-o") + 1].partition(queries.SEPARATOR)[0]
            return (JOBS_HEADER + self._random.choice(_texts("squeue"))).replace("MARK", mark)
        elif command[0] == "sdiag":
            kind = "sdiag"
        else:
            kind = next(kind for word, kind in self._KINDS.items() if word in command)
            header = TABLES[kind][1] if kind in TABLES else ""
        return header + self._random.choice(_texts(kind))


def look(random: random.Random, folder: Path) -> None:
    """All that the daemon asks at a look, and what it makes of it."""
    slurm = CommandLine(in_parts=random.random() < 0.5, run=DamagedSlurm(random), clock_s=lambda: 1.79e9)
    snapshot = slurm.snapshot()
    find_submissions(snapshot.jobs, QUEUE)
    find_marks(snapshot.jobs, QUEUE)
    site = slurm.site(0.0, 4)
    slurm.last_plan_s()
    if QUEUE.partition in site.partitions:
        premise = Premise(QUEUE, in_parts=True)
        judge_harm(site, premise)
        judge_terms(site, premise)


def lists_of_nodes(random: random.Random, folder: Path) -> None:
    """A list of nodes, there and back."""
    nodes = expand_nodes(damaged_text(random, random.choice(LISTS)))
    if len(nodes) < 1000:
        fold_nodes(nodes)


PARSERS: Mapping[str, Parser] = {
    **{f"slurm {kind}": Parser(_answer(*facts, kind)) for kind, facts in {**WITH_AN_END, **TABLES}.items()},
    "slurm requests": Parser(requests),
    "slurm cancellers": Parser(_text((CANCELLED,), parse_cancellers)),
    "slurm preemptions": Parser(_text((PREEMPTED,), parse_preemptions)),
    "slurm rights": Parser(_text((RIGHTS,), parse_rights)),
    "slurm look": Parser(look),
    "slurm node lists": Parser(lists_of_nodes, (ValueError,)),
    "slurm amounts": Parser(_text(AMOUNTS, parse_amount), (ValueError,)),
}
