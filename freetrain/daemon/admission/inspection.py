"""The whole configuration, held against Slurm: what the daemon asks at its start, and the terms of lending."""

from __future__ import annotations

import getpass
import pwd
import shlex
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from freetrain.config import Config, ConfigError, find_setting
from freetrain.core.cluster import Nodes
from freetrain.daemon.admission.checks import lacking_rights
from freetrain.daemon.admission.choices import wrong_choices
from freetrain.daemon.admission.contradictions import find_contradictions
from freetrain.daemon.admission.layout_guard import ALL_QUESTIONS, question_of
from freetrain.daemon.admission.names import (
    missing_partition,
    unknown_nodes,
    unknown_people,
    with_proposed_partition,
)
from freetrain.daemon.admission.wake_check import closed_wake_file
from freetrain.daemon.state_directory import network_file_system
from freetrain.errors import FreetrainError
from freetrain.slurm import commands
from freetrain.slurm.finding import Finding
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.layout import judge
from freetrain.slurm.layout_facts import SlurmLayout
from freetrain.slurm.terms import Terms, judge_terms
from freetrain.slurm.terms_facts import QosTerms, parse_associations, parse_qos_terms
from freetrain.slurm.terms_of_people import judge_people

_USUAL_ACCOUNT = "freetrain"


@dataclass(frozen=True, slots=True)
class Inspection:
    """What was found.

    Attributes:
        findings: what is not as it should be, what is unsafe first.
        layout: that of the Slurm that was asked; None: none was.
        not_checked: what could not be, each with the reason.
    """

    findings: Sequence[Finding]
    layout: SlurmLayout | None = None
    not_checked: Sequence[str] = field(default=())


def daemons_account(config: Config) -> str:
    """The account that the daemon runs as: that of its directory, the usual one, or else one's own."""
    with suppress(OSError, KeyError):
        return pwd.getpwuid(Path(config.state.directory).stat().st_uid).pw_name
    with suppress(KeyError):
        return pwd.getpwnam(_USUAL_ACCOUNT).pw_name
    return getpass.getuser()


def of_mistake(mistake: ConfigError) -> Finding:
    """What keeps a file from being read, as a finding."""
    return Finding(f"{mistake.what} {mistake.hint}".strip(), mistake.mend)


def inspect_files(config: Config, sources: Sequence[Path]) -> Inspection:
    """All that needs no Slurm.

    Args:
        config: the settings.
        sources: the files that they came from.
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
    return _sorted(found, None, [])


def inspect(config: Config, sources: Sequence[Path], gateway: Gateway, account: str) -> Inspection:
    """All there is to be found.

    Args:
        config: the settings.
        sources: the files that they came from.
        gateway: the way to Slurm.
        account: that of the daemon.

    Raises:
        SlurmError: Slurm's controller does not answer.
    """
    snapshot = gateway.snapshot()
    layout = gateway.layout(0.0, ALL_QUESTIONS)
    found = list(inspect_files(config, sources).findings)
    not_checked: list[str] = []
    if missing := missing_partition(config, layout):
        found.append(missing)
    planned = with_proposed_partition(config, layout)
    if not config.slurm.queue.missing(planned.partitions):
        found += judge(question_of(config, planned, snapshot))
        qos = _qos_terms(layout, gateway, not_checked)
        spares = config.lend.spare_suspendable
        terms = Terms(planned, config.slurm.queue, config.lend.shortest_hole, spares, qos, config.lend.in_parts)
        found += judge_terms(terms)
        found += _of_people(config, layout, gateway, not_checked)
        found += find_contradictions(config, _nodes_lent(config, planned))
    if unknown := unknown_nodes(config, snapshot):
        found.append(unknown)
    if closed := closed_wake_file(Path(config.state.directory), layout.settings):
        found.append(closed)
    try:
        found += unknown_people(config, layout, gateway)
    except FreetrainError as error:
        not_checked.append(f"the names in lend.shares ({error.what})")
    try:
        lack = lacking_rights(config, gateway, layout.settings, account)
        found += [lack] if lack else []
    except FreetrainError as error:
        not_checked.append(f"the rights of {account} ({error.what})")
    return _sorted(found, layout, not_checked)


def _nodes_lent(config: Config, layout: SlurmLayout) -> Nodes:
    """All that may be lent."""
    return config.slurm.queue.among({name: one.partition for name, one in layout.partitions.items()}).nodes


def _sorted(found: Sequence[Finding], layout: SlurmLayout | None, not_checked: Sequence[str]) -> Inspection:
    unique = dict.fromkeys(found)
    return Inspection(sorted(unique, key=lambda each: not each.is_unsafe), layout, tuple(not_checked))


def _qos_terms(layout: SlurmLayout, gateway: Gateway, not_checked: list[str]) -> dict[str, QosTerms]:
    if not layout.settings.has_accounting:
        return {}
    try:
        qos, rejected = parse_qos_terms(gateway.perform(commands.ask_qos_terms()))
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
        associations, rejected = parse_associations(gateway.perform(commands.ask_associations()))
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
