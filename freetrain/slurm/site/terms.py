"""Findings on fragments that cannot start or wait, on what fences them, and on their cost for owners. Pure.

Most of them are values of one field that fit no fragment: see :mod:`freetrain.slurm.site.fields`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from math import inf

from freetrain.core.fragment_queue import FragmentQueue
from freetrain.durations import parse_duration, show_duration
from freetrain.slurm.finding import Finding, error, warning
from freetrain.slurm.parsing import fold_nodes
from freetrain.slurm.site.changes import (
    SiteChange,
    conf,
    delete_reservation,
    new_qos,
    partition,
    qos,
    unset_default_qos,
)
from freetrain.slurm.site.facts import Names, Qos, Site, SitePartition, amounts_of
from freetrain.slurm.site.fields import OF_CONF, OF_PARTITION, OF_QOS, judge_fields, number, replaced, with_words
from freetrain.slurm.site.harm import Premise, admit_accounts_to, most_submitted, nodes_of_the_site, own_nodes
from freetrain.slurm.site.limits import limited_associations, qos_of_fragments

_LITTLE = 0.25
"""Share of the charge for an ordinary node; a lent node that is charged that or less costs its user little."""
# Maintenance does not last for a month: such a reservation was forgotten, or is meant for ever.
_FOREVER_S = 30 * 86400.0
# A fragment that has to end sooner loses what its training booted.
_SHORT_S = 600.0
# Fillers are arrays of tasks, too: shorter ones are of little use even where there are few nodes.
_FEW_TASKS = 100
_MANY_SHOWN = 5
_ON_RUNNING, _ON_WAITING = ("GrpTRES", "GrpJobs", "MaxTRESP", "MaxJobsP"), ("GrpSubmit", "MaxSubmitP")
"""Prefixes of a QOS's limits on what runs at once, and on what waits and runs."""
# A fragment is pinned and released; the rest is what a look asks, and other commands of the same account.
_ORDERS_A_NODE, _QUESTIONS = 2, 10


def judge_terms(site: Site, premise: Premise) -> list[Finding]:
    """Findings on all that is not as it should be, though it harms nobody's jobs.

    1. The partition takes jobs of one whole node, from users, for as long as the shortest hole.
    2. The QOS of fragments lets them start, and not before the site's jobs.
    3. Slurm's settings neither hide holes nor lose what fragments did.
    4. Limits of Slurm's own fence what runs there, and what waits.
    5. A lent node costs its user nothing or little; fragments count in no account's limit.
    6. Nodes that Slurm powers down are spared, and no reservation of all nodes lasts for months.
    7. Where parts of nodes are lent, a fragment is confined to its own, and ends with all that it started.
    8. Users get the QOS of fragments only if they ask for it, and may have it.
    """
    most_nodes = len(own_nodes(site, premise.queue))
    in_partitions = (
        finding
        for name in premise.queue.partitions
        for finding in _judge_in(
            site, replace(premise, queue=FragmentQueue(name, premise.queue.qos)), site.partitions[name], most_nodes
        )
    )
    of_site = (_of_settings, _of_power, _of_confinement, _of_rates, _of_people, _of_accounts, _of_reservations)
    return list(dict.fromkeys(chain(in_partitions, *(judge(site, premise) for judge in of_site))))


def _judge_in(site: Site, premise: Premise, own: SitePartition, most_nodes: int) -> Iterator[Finding]:
    names = qos_of_fragments(site, premise.queue, own)
    yield from _of_partition_fields(site, premise, own)
    for quality in site.qos_among(names) if site.enforces_limits else ():
        yield from _of_qos_fields(site, premise, own, quality)
    yield from _of_nodes(site, own)
    yield from _of_fences(site, premise, own, most_nodes)
    yield from _of_charges(site, own, names)


def _of_partition_fields(site: Site, premise: Premise, own: SitePartition) -> Iterator[Finding]:
    change = partial(partition, own.name)
    yield from judge_fields(OF_PARTITION, own.row, change, premise.in_parts, own.name)
    if own.partition.max_time_s < premise.shortest_hole_s:
        yield warning(
            f"Jobs in partition {own.name} run {show_duration(own.partition.max_time_s)} at most (MaxTime), "
            "less than lend.shortest_hole.",
            partition(own.name, "MaxTime", "1-00:00:00"),
        )
    over_s = site.settings.over_s if own.over_s is None else own.over_s
    if over_s > 0:
        yield warning(
            f"Fragments may go on for {show_duration(over_s)} after their limit (OverTimeLimit): the nodes of "
            "holes that end are not free in time.",
            partition(own.name, "OverTimeLimit", "0"),
        )


def _of_qos_fields(site: Site, premise: Premise, own: SitePartition, quality: Qos) -> Iterator[Finding]:
    name = quality.name

    def change(key: str, right: str) -> SiteChange:
        of_list, _, word = key.partition(".")
        return qos(name, of_list, words[key], "-=") if word else qos(name, key, right)

    words = with_words(quality.row, "Flags")
    yield from judge_fields(OF_QOS, words, change, premise.in_parts, name)
    wall = quality.limits.get("MaxWall", "")
    if wall and parse_duration(wall, 60.0) < max(premise.shortest_hole_s, _SHORT_S):
        yield warning(
            f"Jobs with QOS {name} run {wall} at most (MaxWall): a fragment ends before its training has begun.",
            qos(name, "MaxWall", "-1"),
        )
    yield from _of_sizes(premise, own, quality)
    others = [other.priority for other in site.qos.values() if other.name != name]
    is_own = name == premise.queue.qos or own.job_qos.admitted == frozenset({name})
    if is_own and quality.priority > min(others, default=quality.priority):
        yield warning(
            f"Fragments, which have QOS {name}, come before jobs of the site's in the queue "
            f"(Priority={quality.priority}).",
            qos(name, "Priority", f"{min(others)}"),
        )


def _of_sizes(premise: Premise, own: SitePartition, quality: Qos) -> Iterator[Finding]:
    """Findings on limits within which no fragment fits; it has a node, or at least one CPU of it."""
    smallest = {"cpu": 1.0, "node": 1.0} if premise.in_parts else {"cpu": own.cpus_of_a_node, "node": 1.0}
    for key, limit in quality.limits.items():
        is_least = key == "MinTRES"
        if (not is_least and not key.startswith(("GrpTRES", "MaxTRES"))) or "Mins" in key:
            continue
        for resource, amount in amounts_of(limit).items():
            size = smallest.get(resource)
            if size is None or not (amount > size if is_least else amount < size):
                continue
            what = "at least" if is_least else "at most"
            yield error(
                f"Jobs with QOS {quality.name} have {what} {amount:g} of {resource} ({key}={limit}), and a "
                f"fragment has {size:g}: none can start.",
                qos(quality.name, key, f"{resource}=-1"),
            )


def _of_nodes(site: Site, own: SitePartition) -> Iterator[Finding]:
    # Where all GPU nodes are left out they were forgotten, more likely than spared: lend.exclude_nodes does that.
    missing = site.gpu_nodes & nodes_of_the_site(site)
    if missing and not missing & own.partition.nodes:
        nodes = fold_nodes(own.partition.nodes | missing)
        yield warning(
            f"Partition {own.name} has none of the nodes with GPUs ({fold_nodes(missing)}): they are never lent.",
            partition(own.name, "Nodes", nodes),
        )


def _of_settings(site: Site, premise: Premise) -> Iterator[Finding]:
    yield from judge_fields(OF_CONF, site.conf, conf, premise.in_parts)
    most_nodes = len(own_nodes(site, premise.queue))
    if number(site.conf.get("MaxArraySize", "")) <= max(_FEW_TASKS, min(most_nodes, 1000)):
        yield warning(
            f"An array has few tasks (MaxArraySize={site.conf['MaxArraySize']}): a training can use no more "
            "nodes, and a filler is soon over.",
            conf("MaxArraySize", "1001"),
        )
    if site.settings.epilog:
        yield warning(
            "A job that ends while slurmctld runs something for it does not make Slurm's main scheduler run "
            f"(EpilogSlurmctld={site.settings.epilog}): the first in line for nodes that were lent may wait for a "
            "backfill cycle. JobCompType=jobcomp/lua or jobcomp/script has no such effect.",
            conf("EpilogSlurmctld", ""),
        )


def _of_fences(site: Site, premise: Premise, own: SitePartition, most_nodes: int) -> Iterator[Finding]:
    """Findings where no QOS of fragments or of their partition limits what runs at once, or what waits."""
    if not site.settings.has_accounting:
        return
    if not site.enforces_limits:
        enforced = ",".join(sorted(site.settings.enforces - {"", "none"} | {"associations", "limits", "qos"}))
        yield warning(
            "Slurm enforces no limits: nothing but freetrain's own hold what runs in its partition.",
            conf("AccountingStorageEnforce", enforced),
        )
        return
    fence = premise.queue.qos or (own.qos if own.qos not in site.usual_qos else "")
    known = site.qos_among([fence] if fence else qos_of_fragments(site, premise.queue, own))
    nodes, submitted = f"node={most_nodes}", f"{most_submitted(most_nodes)}"
    is_own = bool(fence) or (own.job_qos.admitted is not None and not own.job_qos.admitted & site.usual_qos)
    if not is_own and not (known and all(quality.named_limits(_ON_RUNNING) for quality in known)):
        name = own.name
        made = [] if name in site.qos else [new_qos(name)]
        yield warning(
            f"Partition {name} has no QOS of its own with limits: nothing but freetrain's own hold what runs "
            "there.",
            *made,
            qos(name, "GrpTRES", nodes),
            qos(name, "MaxSubmitJobsPU", submitted),
            partition(name, "QOS", name),
        )
    for quality in known if is_own else ():
        if not quality.named_limits(_ON_RUNNING):
            which = f"QOS {quality.name}" + (f" of partition {own.name}" if quality.name == own.qos else "")
            yield warning(
                f"{which} has no limit: nothing but freetrain's own hold what runs with it.",
                qos(quality.name, "GrpTRES", nodes),
            )
        if not quality.named_limits(_ON_WAITING):
            yield warning(
                f"QOS {quality.name} lets a user submit any number of tasks for partition {own.name}: all of them "
                "count in slurmctld's MaxJobCount, held ones too.",
                qos(quality.name, "MaxSubmitJobsPU", submitted),
            )


def _of_charges(site: Site, own: SitePartition, names: Names) -> Iterator[Finding]:
    if not site.settings.charges or (own.billing is not None and not any(own.billing.values())):
        return
    dear = [quality for quality in site.qos_among(names) if quality.usage_factor > _LITTLE]
    if not dear:
        return
    named = ", ".join(f"{quality.name} {quality.usage_factor:g}" for quality in dear)
    weights = own.row.get("TRESBillingWeights") or "not set"
    is_own = not names & site.usual_qos
    free = [qos(quality.name, "UsageFactor", "0") for quality in dear]
    yield warning(
        f"A lent node counts against its user as any other (UsageFactor of QOS {named}; TRESBillingWeights of "
        f"partition {own.name} {weights}): users pay for nodes that are taken away from them.",
        *(free if is_own else [partition(own.name, "TRESBillingWeights", "CPU=0.0")]),
    )


def _of_power(site: Site, premise: Premise) -> Iterator[Finding]:
    if site.settings.suspend_s < inf and not premise.spares_suspendable:
        yield warning(
            f"Slurm powers nodes down that are idle for {show_duration(site.settings.suspend_s)}. A lent node "
            "is not idle, so lending keeps it powered up; freetrain never wakes one that is down.",
            "[lend]\nspare_suspendable = true",
        )


def _of_confinement(site: Site, premise: Premise) -> Iterator[Finding]:
    plugins = site.settings.task_plugins
    if premise.in_parts and "task/cgroup" not in plugins:
        yield warning(
            "Nothing confines a job to the CPUs, the memory and the GPUs that it was given (TaskPlugin): a "
            "fragment on part of a node can use those of the jobs beside it (lend.share).",
            f"TaskPlugin={','.join(sorted(plugins - {'', 'task/none'} | {'task/cgroup'}))}\n"
            "# cgroup.conf: ConstrainCores=yes ConstrainRAMSpace=yes ConstrainDevices=yes",
        )


def _of_rates(site: Site, premise: Premise) -> Iterator[Finding]:
    # Slurm limits neither root nor SlurmUser.
    parameters = site.settings.controller_parameters
    limit = parse_rate_limit(parameters)
    most_nodes = len(own_nodes(site, premise.queue))
    orders = most_nodes * _ORDERS_A_NODE + _QUESTIONS
    if limit is None or premise.account in ("root", site.settings.slurm_user) or orders <= limit.tokens:
        return
    yield warning(
        f"Slurm lets {premise.account} ask or order something {limit.tokens} times at once, and "
        f"{limit.tokens_per_s:g} times a second then (rl_enable): to lend all {most_nodes} nodes takes "
        f"{show_duration(limit.lasts_s(orders))}, in which no other look is made.",
        conf("SlurmctldParameters", replaced(parameters, "rl_bucket_size", f"rl_bucket_size={orders}")),
    )


def _of_people(site: Site, premise: Premise) -> Iterator[Finding]:
    name = premise.queue.qos
    if not name or not site.settings.has_accounting:
        return
    unaware = [association for association in site.associations if association.default_qos == name]
    accounts = {association.account for association in unaware if not association.user}
    for association in unaware:
        if not (association.user and association.account in accounts):
            yield error(
                f"Jobs of {association} that name no QOS have that of fragments, {name}: they would be preempted.",
                unset_default_qos(association.account, association.user),
            )
    admitting = tuple(admit_accounts_to(site, name))
    if "qos" in site.settings.enforces and admitting:
        yield warning(f"No account may use QOS {name}: nobody can submit a training.", *admitting)


def _of_accounts(site: Site, premise: Premise) -> Iterator[Finding]:
    # No line mends it: what a job has counts in its account, whatever its QOS.
    limited = limited_associations(site, premise.queue)
    if limited:
        named = [f"{association} ({', '.join(limits)})" for association, limits in limited[:_MANY_SHOWN]]
        more = f" and {len(limited) - _MANY_SHOWN} more" if len(limited) > _MANY_SHOWN else ""
        yield warning(
            f"Fragments count in the limits of {', '.join(named)}{more}: a job of the site's that waits for "
            "such a limit gets back at the next look what fragments have of it. To keep them out of it, let "
            "trainings be submitted with an account of their own."
        )


def _of_reservations(site: Site, premise: Premise) -> Iterator[Finding]:
    nodes = own_nodes(site, premise.queue)
    for reservation in site.reservations:
        if nodes and nodes <= reservation.nodes and reservation.end_s - reservation.start_s > _FOREVER_S:
            yield warning(
                f"Reservation {reservation.name} has all nodes of partition {premise.queue.partition} for "
                f"{show_duration(reservation.end_s - reservation.start_s)}: nothing can be lent meanwhile.",
                delete_reservation(reservation.name),
            )


@dataclass(frozen=True, slots=True)
class RateLimit:
    """A bucket of tokens, of which each question and each order takes one.

    Attributes:
        tokens: most tokens that there are at once.
        tokens_per_s: tokens that come back in a second.
    """

    tokens: int
    tokens_per_s: float

    def lasts_s(self, orders: int) -> float:
        """Seconds that so many orders take at least."""
        return max(0.0, orders - self.tokens) / self.tokens_per_s


def parse_rate_limit(controller_parameters: str) -> RateLimit | None:
    """Rate limit in SlurmctldParameters; None: there is none. The defaults are Slurm's."""
    given = dict(word.partition("=")[::2] for word in controller_parameters.split(","))
    if "rl_enable" not in given:
        return None
    bucket, rate, period = (
        int(value) if re.fullmatch(r"0*[1-9][0-9]{0,17}", value := given.get(name, "")) else default
        for name, default in (("rl_bucket_size", 30), ("rl_refill_rate", 2), ("rl_refill_period", 1))
    )
    return RateLimit(bucket, rate / period)
