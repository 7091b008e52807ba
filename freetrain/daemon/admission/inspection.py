"""The whole configuration, held against Slurm: what the daemon asks at its start, and the terms of lending."""

from __future__ import annotations

import getpass
import pwd
import shlex
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from freetrain.config import Config, ConfigError, find_setting
from freetrain.core.cluster import Snapshot
from freetrain.daemon.admission.checks import lacking_rights
from freetrain.daemon.admission.choices import without_effect, wrong_choices
from freetrain.daemon.admission.contradictions import find_contradictions, find_misfits
from freetrain.daemon.admission.names import unknown_nodes, unknown_people
from freetrain.daemon.admission.proof import prove_rights
from freetrain.daemon.admission.site_guard import owners_in, premise_of
from freetrain.daemon.admission.state_check import closed_python, closed_state, closed_textfile
from freetrain.daemon.admission.wake_check import closed_wake_file
from freetrain.daemon.state_directory import network_file_system
from freetrain.daemon.trainers.needs import needs_of, say_missing_in_queue
from freetrain.errors import FreetrainError
from freetrain.slurm.finding import Finding
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.site.advice import advise, harmless
from freetrain.slurm.site.facts import Site
from freetrain.slurm.site.harm import own_nodes, what_preemption_means
from freetrain.slurm.site.reader import ALL_QUESTIONS
from freetrain.slurm.site.terms import judge_terms
from freetrain.slurm.submissions import find_submissions

_USUAL_ACCOUNT = "freetrain"


@dataclass(frozen=True, slots=True)
class Inspection:
    """What was found.

    Attributes:
        findings: what is not as it should be, what is unsafe first.
        site: what the Slurm showed that was asked; None: none was.
        not_checked: what could not be, each with the reason.
        notes: what is as it may be, and good to know.
    """

    findings: Sequence[Finding]
    site: Site | None = None
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
    found += filter(None, [closed_textfile(config, account), closed_python(config, account)])
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
    site = _site_of(gateway, snapshot)
    not_checked = [f"QOS, accounts and limits ({site.problem})"] if site.problem else []
    notes: list[str] = []
    found = list(inspect_files(config, sources, account).findings)
    premise = premise_of(config, owners_in(config, snapshot), account)
    advice = advise(site, premise)
    found += advice.findings
    # All other findings are about the site as it will be once the plan is carried out.
    planned, queue = (advice.plan.site, advice.plan.queue) if advice.plan else (site, premise.queue)
    if not queue.missing(planned.partitions):
        premise = replace(premise, queue=queue)
        notes += filter(None, [what_preemption_means(planned, premise)])
        new = planned.partitions.keys() - site.partitions.keys()
        terms = (harmless(planned, queue, finding) for finding in judge_terms(planned, premise))
        found += [finding.before_there_is(new) for finding in terms]
        found += find_contradictions(config, own_nodes(planned, queue))
    found += find_misfits(config, snapshot)
    found += filter(None, [unknown_nodes(config, snapshot)])
    waiting = find_submissions(snapshot.jobs, config.slurm.queue).values()
    found += (Finding(what, "", False) for what in say_missing_in_queue(needs_of(config), waiting))
    found += filter(None, [closed_wake_file(Path(config.state.directory), site.settings)])
    found += _of_shares(config, site, gateway, not_checked)
    rights = _of_rights(config, site, gateway, account, not_checked)
    found += rights
    if prove:
        proof = prove_rights(config, gateway, snapshot, account, config.lend.launcher == "steer" and not rights)
        found += proof.findings
        notes += filter(None, [proof.done])
    return _sorted(found, site, not_checked, notes)


def _site_of(gateway: Gateway, snapshot: Snapshot) -> Site:
    """The site with what only the nodes and the reservations show."""
    gpu_nodes = frozenset(node.name for node in snapshot.nodes if node.total.gpus)
    site = gateway.site(0.0, ALL_QUESTIONS)
    return replace(site, reservations=snapshot.reservations, gpu_nodes=gpu_nodes)


def _of_shares(config: Config, site: Site, gateway: Gateway, not_checked: list[str]) -> Sequence[Finding]:
    try:
        return list(unknown_people(config, site, gateway))
    except FreetrainError as error:
        not_checked.append(f"the names in lend.shares ({error.what})")
        return []


def _of_rights(
    config: Config, site: Site, gateway: Gateway, account: str, not_checked: list[str]
) -> Sequence[Finding]:
    try:
        lack = lacking_rights(config, gateway, site.settings, account)
    except FreetrainError as error:
        not_checked.append(f"the rights of {account} ({error.what})")
        return []
    return [lack] if lack else []


def _sorted(
    found: Sequence[Finding], site: Site | None, not_checked: Sequence[str], notes: Sequence[str]
) -> Inspection:
    unique = dict.fromkeys(found)
    in_order = sorted(unique, key=lambda each: not each.is_unsafe)
    return Inspection(in_order, site, tuple(not_checked), tuple(notes))


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
        what = f"notify.command: there is no program {words[0]}, or it may not be run, so no notice is sent."
        yield Finding(what, f"[notify]\n{setting.line}", False)


def _of_sources(sources: Sequence[Path]) -> Iterator[Finding]:
    for source in sources:
        with suppress(OSError):
            if source.stat().st_mode & 0o002:
                yield Finding(f"Everybody may write {source}, and so decide what is lent.", f"chmod o-w {source}")
