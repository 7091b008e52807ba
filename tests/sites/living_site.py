"""A site told by Slurm's texts, with jobs and trainings on it, and what freetrain does there."""

from __future__ import annotations

from collections import Counter
from math import inf
from pathlib import Path

from freetrain.config import Config
from freetrain.config.settings import load_config
from freetrain.core.needs import find_misfit, kinds_of
from freetrain.core.place import node_of
from freetrain.core.trainer import Trainer
from freetrain.daemon.admission.admission import owners_in, premise_of
from freetrain.daemon.rules import roster_rules_of, rules_of
from freetrain.daemon.trainers.registry import SubmissionReader
from freetrain.lending.facts import Facts, Request
from freetrain.lending.judge import Judgement, judge
from freetrain.lending.memory import Memory
from freetrain.slurm.commands import Command
from freetrain.slurm.parsing import fold_nodes
from freetrain.slurm.queries import JOB_FIELDS, NEED_FIELDS, SEPARATOR
from freetrain.slurm.site.harm import judge_harm
from freetrain.slurm.site.reader import ALL_QUESTIONS
from freetrain.slurm.site.terms import judge_terms
from freetrain.slurm.steering import Steering
from freetrain.slurm.submissions import Submission
from tests.cli.planted_site import Kind, PlantedSite

NOW_S = 1_795_240_000
NODE = {
    "NodeName": "", "CoresPerSocket": "1", "CPUAlloc": "0", "CPUEfctv": "4", "CPUTot": "4",
    "ActiveFeatures": "(null)", "Gres": "(null)", "RealMemory": "1000", "AllocMem": "0",
    "Sockets": "4", "State": "IDLE", "ThreadsPerCore": "1", "TmpDisk": "0", "Partitions": "main,freetrain,debug",
}  # fmt: skip
JOB = {
    "%u": "bob", "%a": "ml", "%P": "main", "%V": str(NOW_S - 600), "%l": "1:00:00", "%D": "1", "%Q": "100",
    "%q": "normal", "%f": "(null)", "%k": "(null)",
}  # fmt: skip
ASKS = {
    "State": "PENDING", "NumTasks": "1", "cpus-per-task": "1", "MinMemory": "0", "tres-alloc": "cpu=1,node=1",
    "sct": "*:*:*", "mintmpdisk": "0", "oversubscribe": "OK", "Exclusive": "",
}  # fmt: skip


class LivingSite(PlantedSite):
    """Four nodes, n001 to n004, of four CPUs each, and what happens on them."""

    def __init__(self, directory: Path, kind: Kind) -> None:
        super().__init__(directory, kind, lambda: float(NOW_S))
        names = ("n001", "n002", "n003", "n004")
        self.nodes = {name: NODE | {"NodeName": name} for name in names}
        self.asked: dict[str, dict[str, str]] = {}
        self.reservations = ""

    def node(self, name: str, **fields: str) -> None:
        """Change what is shown of a node."""
        self.nodes[name] |= fields

    def job(self, id_: str, **fields: str) -> None:
        """A job, by the letters of squeue's fields."""
        given = {f"%{letter}": value for letter, value in fields.items()}
        shown = dict.fromkeys(JOB_FIELDS, "") | JOB | {"%i": id_, "%F": id_} | given
        self.jobs += SEPARATOR.join(("MARK", *shown.values())) + "\n"

    def runs(self, id_: str, nodes: str, **fields: str) -> None:
        """A job that has these nodes for another hour."""
        self.job(id_, T="RUNNING", N=nodes, S=str(NOW_S - 60), e=str(NOW_S + 3600), **fields)

    def waits(self, id_: str, **fields: str) -> None:
        """A job that waits."""
        self.job(id_, **{"T": "PENDING", "r": "Resources", "S": "N/A", "e": "N/A", "Y": "(null)"} | fields)

    def training(self, id_: str, asks: dict[str, str] | None = None, **fields: str) -> None:
        """A training that waits, what its tasks ask for by squeue's names."""
        queue = self.settings().slurm.queue
        mine = {"u": "alice", "P": queue.partition, "q": queue.qos or "normal", "k": "freetrain:min=1"}
        held = {"T": "PENDING", "r": "JobHeldUser", "Q": "0", "S": "N/A", "e": "N/A", "Y": "(null)"}
        self.job(id_, **mine | held | fields | {"i": f"{id_}_[0-7]"})
        self.asked[id_] = asks or {}

    def settings(self) -> Config:
        """What is in its freetrain.toml."""
        self.write()
        return load_config(self.path).config

    def _ask(self, command: Command, stdin: str = "") -> str:
        match command:
            case ("squeue", *_, "-O", _):
                return "".join(_asks_line({"ArrayJobID": id_} | asks) for id_, asks in self.asked.items())
            case ("squeue", "-h", *_):
                return ""
            case (*_, "nodes"):
                return "".join(_node_line(node) for node in self.nodes.values())
            case (*_, "reservation"):
                return self.reservations or "No reservations in the system\n"
        return super()._ask(command, stdin)


def _asks_line(asks: dict[str, str]) -> str:
    row = dict.fromkeys(NEED_FIELDS, "N/A") | ASKS | asks
    return "".join(f"{row[name]:<{size}}{SEPARATOR}" for name, size in NEED_FIELDS.items()) + "\n"


def _node_line(node: dict[str, str]) -> str:
    return " ".join(f"{key}={value}" for key, value in node.items()) + " \n"


def what_freetrain_does(site: LivingSite) -> str:
    """In words: what is refused, or else what may be lent, to whom, and what is warned of."""
    config = site.settings()
    site._in_parts = config.lend.in_parts
    snapshot, facts = site.snapshot(), site.site(0.0, ALL_QUESTIONS)
    premise = premise_of(config, owners_in(config, snapshot))
    findings = judge_harm(facts, premise)
    refused = [finding.what for finding in findings if finding.is_unsafe]
    if refused:
        return f"refuses: {' '.join(refused)}"
    rules, reader = rules_of(config, facts.settings), SubmissionReader(site)
    queue = config.slurm.queue
    found = reader.read(snapshot, snapshot.jobs, roster_rules_of(config, facts.settings, Steering()))
    kinds = kinds_of(node for node in snapshot.nodes if node.name in snapshot.partitions[queue.partition].nodes)
    misfits = {id_: why for id_, submission in found.items() if (why := find_misfit(submission.needs, kinds))}
    requests = tuple(_request(submission) for id_, submission in found.items() if id_ not in misfits)
    # What confines jobs: all other terms have tests of their own.
    terms = [term for term in judge_terms(facts, premise) if "confines" in term.what]
    judgement = judge(Facts(snapshot, requests=requests), Memory(), rules)
    said = [
        *(_dealt(judgement) if requests else [_lent(judgement)]),
        *_withheld(judgement),
        *(f"training {id_} waits: {why}" for id_, why in misfits.items()),
        *(f"warns: {finding.what}" for finding in [*findings, *terms]),
    ]
    return "; ".join(filter(None, said))


def _request(submission: Submission) -> Request:
    trainer = Trainer(submission.id, ((1, 1.0), (8, 8.0)))
    return Request(trainer, submission.owner, needs=submission.needs)


def _lent(judgement: Judgement) -> str:
    offered = {place.node: place.until_s for place in judgement.offers.offered}
    if not offered:
        return "lends nothing"
    ends = {name: end_s for name, end_s in offered.items() if end_s is not None and end_s < inf}
    until = "".join(f", {name} for {(end_s - NOW_S) / 60:.0f} min" for name, end_s in sorted(ends.items()))
    return f"lends {fold_nodes(offered)}{until}"


def _dealt(judgement: Judgement) -> list[str]:
    """Trainer by trainer: the nodes that it may have, with how many parts of each."""
    said = []
    for claimant in (claimant for claimants, _ in judgement.allotment for claimant in claimants):
        parts = Counter(node_of(name) for name in judgement.allotment.dealt.places[claimant.key])
        in_parts = judgement.rules.nodes.in_parts
        named = [f"{count} x {name}" for name, count in sorted(parts.items())] if in_parts else [fold_nodes(parts)]
        said += [f"lends {', '.join(named)} to training {want.trainer}" for want in claimant.wants]
    return said or ["lends nothing"]


def _withheld(judgement: Judgement) -> list[str]:
    nodes: dict[str, list[str]] = {}
    for name, why in sorted({**judgement.offers.withheld, **judgement.offers.due}.items()):
        nodes.setdefault(why, []).append(node_of(name))
    return [f"not {fold_nodes(names)}: {why}" for why, names in nodes.items()]
