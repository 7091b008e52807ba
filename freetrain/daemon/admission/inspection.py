"""The whole configuration, held against Slurm: what the daemon asks at its start, and the terms of lending."""

from __future__ import annotations

import getpass
import pwd
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from freetrain.config import Config, ConfigError, find_setting
from freetrain.core.node import Nodes
from freetrain.daemon.admission.checks import lacking_rights
from freetrain.daemon.admission.choices import without_effect, wrong_choices
from freetrain.daemon.admission.contradictions import find_contradictions
from freetrain.daemon.admission.layout_guard import ALL_QUESTIONS, question_of
from freetrain.daemon.admission.names import (
    missing_partition,
    unknown_nodes,
    unknown_people,
    with_proposed_partition,
)
from freetrain.daemon.admission.proof import prove_rights
from freetrain.daemon.admission.state_check import closed_state
from freetrain.daemon.admission.wake_check import closed_wake_file
from freetrain.daemon.state_directory import network_file_system
from freetrain.daemon.trainers.needs import needs_of, say_missing_in_queue
from freetrain.errors import FreetrainError
from freetrain.slurm import queries
from freetrain.slurm.finding import Finding
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.layout import judge
from freetrain.slurm.layout_facts import SlurmLayout
from freetrain.slurm.preempted_findings import what_preemption_means
from freetrain.slurm.rate_limit import judge_rate_limit
from freetrain.slurm.submissions import find_submissions
from freetrain.slurm.terms import judge_terms
from freetrain.slurm.terms_facts import QosTerms, Terms, parse_associations, parse_qos_terms
from freetrain.slurm.terms_of_people import judge_people

_USUAL_ACCOUNT = "freetrain"


@dataclass(frozen=True, slots=True)
class Inspection:
    """What was found.

    Attributes:
        findings: what is not as it should be, what is unsafe first.
        layout: that of the Slurm that was asked; None: none was.
        not_checked: what could not be, each with the reason.
        notes: what is as it may be, and good to know.
    """

    findings: Sequence[Finding]
    layout: SlurmLayout | None = None
    not_checked: Sequence[str] = field(default=())
    notes: Sequence[str] = field(default=())


def daemons_account(config: Config) -> str:
    """The account that the daemon runs as: that of its directory, the usual one, or else one's own.

    A directory that root made says nothing, where there is the usual account.
    """
    owner = ""
    with suppress(OSError, KeyError):
        owner = pwd.getpwuid(Path(config.state.directory).stat().st_uid).pw_name
    if owner not in ("", "root"):
        return owner
    with suppress(KeyError):
        return pwd.getpwnam(_USUAL_ACCOUNT).pw_name
    return owner or getpass.getuser()


def of_mistake(mistake: ConfigError) -> Finding:
    """What keeps a file from being read, as a finding."""
    return Finding(f"{mistake.what} {mistake.hint}".strip(), mistake.mend, file=mistake.file)


def inspect_files(config: Config, sources: Sequence[Path], account: str) -> Inspection:
    """All that needs no Slurm.

    Args:
        config: the settings.
        sources: the files that they came from.
        account: that of the daemon.
    """
    found = [
        *_of_choices(config),
        *_of_notify(config),
        *_of_sources(sources),
        *find_contradictions(config, frozenset()),
    ]
    if kind := network_file_system(Path(config.state.directory)):
        setting = find_setting("state.directory")
        assert setting is not None
        found.append(
            Finding(
                f"state.directory is on a network file system ({kind}), where locks and SQLite fail.",
                f"[state]\n{setting.line}",
            )
        )
    if closed := closed_state(Path(config.state.directory), account):
        found.append(closed)
    return _sorted(found, None, [], [])


def inspect(
    config: Config, sources: Sequence[Path], gateway: Gateway, account: str, prove: bool = False
) -> Inspection:
    """All there is to be found.

    Args:
        config: the settings.
        sources: the files that they came from.
        gateway: the way to Slurm.
        account: that of the daemon.
        prove: whether to prove its rights with a job; this must run as that account then.

    Raises:
        SlurmError: Slurm's controller does not answer.
    """
    snapshot = gateway.snapshot()
    layout = gateway.layout(0.0, ALL_QUESTIONS)
    found = list(inspect_files(config, sources, account).findings)
    not_checked: list[str] = []
    notes: list[str] = []
    found += filter(None, [missing_partition(config, layout)])
    planned = with_proposed_partition(config, layout)
    if not config.slurm.queue.missing(planned.partitions):
        question = question_of(config, planned, snapshot)
        found += judge(question)
        notes += filter(None, [what_preemption_means(question, config.lend.launcher == "steer")])
        found += judge_terms(_terms(config, planned, _qos_terms(layout, gateway, not_checked)))
        found += judge_rate_limit(planned.settings, len(_nodes_lent(config, planned)), account)
        found += _of_people(config, layout, gateway, not_checked)
        found += find_contradictions(config, _nodes_lent(config, planned))
    found += filter(None, [unknown_nodes(config, snapshot)])
    waiting = find_submissions(snapshot.jobs, config.slurm.queue).values()
    found += (Finding(what, "", False) for what in say_missing_in_queue(needs_of(config), waiting))
    found += filter(None, [closed_wake_file(Path(config.state.directory), layout.settings)])
    found += _of_shares(config, layout, gateway, not_checked)
    rights = _of_rights(config, layout, gateway, account, not_checked)
    found += rights
    if prove:
        proof = prove_rights(config, gateway, snapshot, account, config.lend.launcher == "steer" and not rights)
        found += proof.findings
        notes += filter(None, [proof.done])
    return _sorted(found, layout, not_checked, notes)


def _terms(config: Config, planned: SlurmLayout, qos: Mapping[str, QosTerms]) -> Terms:
    """On what terms fragments would run."""
    lend = config.lend
    return Terms(planned, config.slurm.queue, lend.shortest_hole, lend.spare_suspendable, qos, lend.in_parts)


def _of_shares(config: Config, layout: SlurmLayout, gateway: Gateway, not_checked: list[str]) -> Sequence[Finding]:
    try:
        return list(unknown_people(config, layout, gateway))
    except FreetrainError as error:
        not_checked.append(f"the names in lend.shares ({error.what})")
        return []


def _of_rights(
    config: Config, layout: SlurmLayout, gateway: Gateway, account: str, not_checked: list[str]
) -> Sequence[Finding]:
    try:
        lack = lacking_rights(config, gateway, layout.settings, account)
    except FreetrainError as error:
        not_checked.append(f"the rights of {account} ({error.what})")
        return []
    return [lack] if lack else []


def _nodes_lent(config: Config, layout: SlurmLayout) -> Nodes:
    """All that may be lent."""
    return config.slurm.queue.among({name: one.partition for name, one in layout.partitions.items()}).nodes


def _sorted(
    found: Sequence[Finding], layout: SlurmLayout | None, not_checked: Sequence[str], notes: Sequence[str]
) -> Inspection:
    unique = dict.fromkeys(found)
    in_order = sorted(unique, key=lambda each: not each.is_unsafe)
    return Inspection(in_order, layout, tuple(not_checked), tuple(notes))


def _qos_terms(layout: SlurmLayout, gateway: Gateway, not_checked: list[str]) -> dict[str, QosTerms]:
    if not layout.settings.has_accounting:
        return {}
    try:
        qos, rejected = parse_qos_terms(gateway.perform(queries.ask_qos_terms()))
        problem = "; ".join(rejected)
    except FreetrainError as error:
        qos, problem = {}, error.what
    if problem:
        not_checked.append(f"limits and charges of QOS ({problem})")
    return qos


def _of_people(config: Config, layout: SlurmLayout, gateway: Gateway, not_checked: list[str]) -> Sequence[Finding]:
    if not config.slurm.qos or not layout.settings.has_accounting:
        return []
    try:
        associations, rejected = parse_associations(gateway.perform(queries.ask_associations()))
        problem = "; ".join(rejected)
    except FreetrainError as error:
        associations, problem = [], error.what
    if problem:
        not_checked.append(f"who may use QOS {config.slurm.qos} ({problem})")
    return [*judge_people(config.slurm.qos, associations, "qos" in layout.settings.enforces)]


def _of_choices(config: Config) -> Iterator[Finding]:
    for path, error in wrong_choices(config).items():
        setting = find_setting(path)
        assert setting is not None
        yield Finding(f"{error.what} {error.hint}".strip(), f"[{setting.section}]\n{setting.line}")
    for path, sentence in without_effect(config).items():
        setting = find_setting(path)
        assert setting is not None
        yield Finding(sentence, f"[{setting.section}]\n{setting.line}", False)


def _of_notify(config: Config) -> Iterator[Finding]:
    words = shlex.split(config.notify.command)
    if words and shutil.which(words[0]) is None:
        setting = find_setting("notify.command")
        assert setting is not None
        what = f"notify.command: there is no program {words[0]}, or it may not be run, so nobody is told."
        yield Finding(what, f"[notify]\n{setting.line}", False)


def _of_sources(sources: Sequence[Path]) -> Iterator[Finding]:
    for source in sources:
        with suppress(OSError):
            if source.stat().st_mode & 0o002:
                yield Finding(f"Everybody may write {source}, and so decide what is lent.", f"chmod o-w {source}")
