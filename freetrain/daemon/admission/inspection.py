"""The whole configuration, held against Slurm: what the daemon asks at its start, and the terms of lending.

The rights of the daemon's account are proved with a job of its own that never runs; files that it needs (its
state, its metrics, Python) are looked at as it would find them.
"""

from __future__ import annotations

import getpass
import pwd
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from freetrain.config import Config, ConfigError, setting_of
from freetrain.core.cluster import Snapshot
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.daemon.admission.access import closed_python, closed_state, closed_textfile, closed_wake_file
from freetrain.daemon.admission.admission import lacking_rights, owners_in, premise_of
from freetrain.daemon.admission.contradictions import (
    find_contradictions,
    find_misfits,
    unknown_nodes,
    unknown_people,
    without_effect,
    wrong_choices,
)
from freetrain.daemon.admission.sole_lender import NO_SCRIPT
from freetrain.daemon.state_directory import network_file_system
from freetrain.daemon.trainers.needs import needs_of, say_missing_in_queue
from freetrain.errors import FreetrainError
from freetrain.slurm import commands
from freetrain.slurm.commands import Command
from freetrain.slurm.errors import SlurmBusyError, SlurmError, SlurmRefusedError
from freetrain.slurm.finding import Finding, error, warning
from freetrain.slurm.gateway import USERS_PAUSES_S, Gateway
from freetrain.slurm.site.advice import advise, best_plan, harmless
from freetrain.slurm.site.facts import BY_PARTITION, BY_QOS, Site
from freetrain.slurm.site.harm import Premise, judge_harm, own_nodes, what_preemption_means
from freetrain.slurm.site.reader import ALL_QUESTIONS
from freetrain.slurm.site.terms import judge_terms
from freetrain.slurm.submissions import find_submissions

_USUAL_ACCOUNT = "freetrain"


@dataclass(frozen=True, slots=True)
class Inspection:
    """Findings, what is unsafe first; what could not be checked, with the reasons; and notes on the rest."""

    findings: Sequence[Finding]
    site: Site | None = None
    not_checked: Sequence[str] = field(default=())
    notes: Sequence[str] = field(default=())


def daemons_account(config: Config) -> str:
    """The account that the daemon runs as: that of its directory, the usual one, or else that of this process."""
    owner = ""
    with suppress(OSError, KeyError):
        owner = pwd.getpwuid(Path(config.state.directory).stat().st_uid).pw_name
    # A directory that root made says nothing where there is the usual account.
    if owner not in ("", "root"):
        return owner
    with suppress(KeyError):
        return pwd.getpwnam(_USUAL_ACCOUNT).pw_name
    return owner or getpass.getuser()


def of_mistake(mistake: ConfigError) -> Finding:
    """Finding on a mistake that keeps a file from being read."""
    return Finding(f"{mistake.what} {mistake.hint}".strip(), mistake.mend, file=mistake.file)


def inspect_files(config: Config, sources: Sequence[Path], account: str) -> Inspection:
    """Inspection of all that needs no Slurm: ``sources`` are the settings' files, ``account`` is the daemon's."""
    directory = Path(config.state.directory)
    found = [
        error(f"{mistake.what} {mistake.hint}".strip(), setting_of(path).lines)
        for path, mistake in wrong_choices(config).items()
    ]
    found += [warning(sentence, setting_of(path).lines) for path, sentence in without_effect(config).items()]
    words = shlex.split(config.notify.command)
    if words and shutil.which(words[0]) is None:
        what = f"notify.command: there is no program {words[0]}, or it may not be run, so no notice is sent."
        found.append(warning(what, setting_of("notify.command").lines))
    for source in sources:
        with suppress(OSError):
            if source.stat().st_mode & 0o002:
                what = f"Everybody may write {source}, and so decide what is lent."
                found.append(error(what, f"chmod o-w {source}"))
    found += find_contradictions(config, frozenset())
    if kind := network_file_system(directory):
        what = f"state.directory is on a network file system ({kind}), where locks and SQLite fail."
        found.append(error(what, setting_of("state.directory").lines))
    closed = (closed_state(directory, account), closed_textfile(config, account), closed_python(config, account))
    found += filter(None, closed)
    return _sorted(found, None, [], [])


def inspect(
    config: Config, sources: Sequence[Path], gateway: Gateway, account: str, prove: bool = False
) -> Inspection:
    """Inspection of everything; ``prove`` the account's rights with a job only as that account."""
    snapshot = gateway.snapshot()
    gpu_nodes = frozenset(node.name for node in snapshot.nodes if node.total.gpus)
    site = gateway.site(0.0, ALL_QUESTIONS)
    site = replace(site, reservations=snapshot.reservations, gpu_nodes=gpu_nodes)
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
    found += (warning(what) for what in say_missing_in_queue(needs_of(config), waiting))
    found += filter(None, [closed_wake_file(Path(config.state.directory), site.settings)])
    with _noting(not_checked, "the names in lend.shares"):
        found += unknown_people(config, site, gateway)
    rights: list[Finding] = []
    with _noting(not_checked, f"the rights of {account}"):
        rights += filter(None, [lacking_rights(config, gateway, site.settings, account)])
    found += rights
    if prove:
        proof = prove_rights(config, gateway, snapshot, account, config.lend.launcher == "steer" and not rights)
        found += proof.findings
        notes += proof.notes
    return _sorted(found, site, not_checked, notes)


@contextmanager
def _noting(not_checked: list[str], what: str) -> Iterator[None]:
    try:
        yield
    except FreetrainError as error:
        not_checked.append(f"{what} ({error.what})")


def _sorted(
    found: Sequence[Finding], site: Site | None, not_checked: Sequence[str], notes: Sequence[str]
) -> Inspection:
    unique = dict.fromkeys(found)
    in_order = sorted(unique, key=lambda finding: not finding.is_unsafe)
    return Inspection(in_order, site, tuple(not_checked), tuple(notes))


_NAME = "freetrain-check"
_REFUSED = (SlurmRefusedError, SlurmBusyError)


def prove_rights(
    config: Config, gateway: Gateway, snapshot: Snapshot, account: str, as_operator: bool
) -> Inspection:
    """Submit a held job, change it as fragments are changed, and cancel it; this must run as the account.

    Returns:
        Findings on what Slurm refused, with a note on what was done, if anything was.
    """
    queue = config.slurm.queue
    try:
        printed = gateway.perform_patiently(commands.submit_held(queue, _NAME, _NAME), NO_SCRIPT)
    except _REFUSED as refusal:
        what = f"Slurm lets {account} submit nothing to {queue} ({refusal.what}): no daemon leaves a mark there."
        return Inspection([warning(what, f"sacctmgr show assoc user={account}")])
    job = printed.strip().partition(";")[0]
    found = []
    try:
        for what, mend, command in _steps(config, snapshot, account, job, as_operator):
            try:
                gateway.perform_patiently(command, pauses_s=USERS_PAUSES_S)
            except _REFUSED as refusal:
                found.append(error(f"Slurm does not let {account} {what}: {refusal.what}", mend))
    finally:
        try:
            gateway.perform(commands.cancel(job))
        except SlurmError:
            what = f"Job {job}, which was submitted to prove the rights, could not be cancelled."
            found.append(error(what, f"scancel {job}"))
    done = f"As {account}, job {job} was submitted to {queue}, held, changed as fragments are, and cancelled."
    return Inspection(found, notes=[done])


def _steps(
    config: Config, snapshot: Snapshot, account: str, job: str, as_operator: bool
) -> Iterator[tuple[str, str, Command]]:
    """Changes to try: each in words, with what mends it where it is refused, and its command."""
    operator = f"sacctmgr -i modify user {account} set AdminLevel=Operator"
    queue = config.slurm.queue
    nodes = () if queue.missing(snapshot.partitions) else queue.among(snapshot.partitions).nodes
    if node := min(nodes, default=""):
        yield "pin a job to a node", operator, commands.pin(job, (node,), 120.0)
    yield "change a job's time limit", operator, commands.set_limit(180.0, job)
    yield "change a job's comment", operator, commands.set_comment(job, _NAME)
    # Users may change their own jobs, but for the priority, which only an operator may raise: that shows whether
    # the jobs of others may be steered, too.
    if as_operator:
        yield "do what only an operator may (raise a job's priority)", operator, commands.raise_priority(job)


def propose(site: Site) -> Mapping[str, object]:
    """Setting, as ``lend.mode`` → its value, for those that this Slurm decides, or that an admin should see."""
    defaults = Config()
    queue = choose_queue(site)
    own = site.partitions.get(queue.partition)
    most_s = own.partition.max_time_s if own else float("inf")
    return {
        "slurm.partition": queue.partition,
        **({"slurm.qos": queue.qos} if queue.qos else {}),
        # Nothing is lent before an admin has changed this.
        "lend.mode": "observe",
        "lend.launcher": "steer",
        "lend.longest_fragment": min(defaults.lend.longest_fragment, most_s),
        "lend.spare_suspendable": site.settings.suspend_s < float("inf"),
        "lend.fair_share": defaults.lend.fair_share,
        "pace.poll": min(defaults.pace.poll, max(1.0, site.settings.backfill_interval_s)),
        "harm.limit": defaults.harm.limit,
        "state.directory": defaults.state.directory,
        "state.stop_file": defaults.state.stop_file,
    }


def choose_queue(site: Site) -> FragmentQueue:
    """Queue where fragments may best run: a partition that is safe as it is, else where least has to change."""
    usual = FragmentQueue(Config().slurm.partition)
    if usual.partition not in site.partitions and site.settings.preempt_type in (BY_PARTITION, BY_QOS):
        for own in sorted(site.partitions.values(), key=lambda own: (own.partition.priority_tier, own.name)):
            queue = FragmentQueue(own.name)
            if not any(finding.is_unsafe for finding in judge_harm(site, Premise(queue))):
                return queue
    plan = best_plan(site, Premise(usual))
    return plan.queue if plan else usual
