"""Limits in which fragments count together with the site's own jobs. Pure.

Slurm preempts for nodes, and never for a limit: the site's jobs wait for what fragments have of a limit. A QOS
of their own keeps fragments out of the limits of other QOS, but not out of those of accounts: for the job itself
a limit of its QOS replaces that of its account, and what the job has counts in the account all the same
(measured with 22.05).
"""

from __future__ import annotations

from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.job import Job, LimitOf
from freetrain.slurm.site.facts import Association, Names, Qos, Site, SitePartition
from freetrain.slurm.site.preemption import fragment_qos, is_shared, ours, sites_on

OF_ALL, OF_EACH = ("Grp",), ("MaxTRESP", "MaxJobsP", "MaxSubmitP")
"""Prefixes of a QOS's limits on what all its jobs have together, and on what each user or account has."""
_OF_EACH_ASSOCIATION = ("MaxJobs", "MaxSubmit")
"""Limits of a user on what their jobs have together."""


def shared_limits(site: Site, queue: FragmentQueue, partition: SitePartition) -> list[tuple[Qos, bool]]:
    """The QOS with limits in which fragments in a partition count together with jobs of the site's.

    Each comes with whether it is the QOS of the partition, and not that of jobs.
    """
    if not site.enforces_limits:
        return []
    of_jobs = site.qos_among(qos_of_fragments(site, queue, partition) - {queue.qos})
    of_partition = site.qos_among({partition.qos}) if is_shared(partition, queue) else []
    found = (
        *((qos, False) for qos in of_jobs if is_of_the_site(site, queue, partition, qos.name)),
        *((qos, True) for qos in of_partition),
    )
    return [(qos, is_its_own) for qos, is_its_own in found if qos.named_limits((*OF_ALL, *OF_EACH))]


def qos_of_fragments(site: Site, queue: FragmentQueue, partition: SitePartition) -> frozenset[str]:
    """QOS that fragments in a partition have: where it admits every QOS, those that their owners' jobs have."""
    if queue.qos or partition.job_qos.admitted is not None:
        return fragment_qos(site, queue, partition)
    usual = {member.usual_qos for member in site.members} or set(site.qos)
    return frozenset(name for name in usual if partition.job_qos.admits(name))


def is_of_the_site(site: Site, queue: FragmentQueue, partition: SitePartition, qos: str) -> bool:
    """Whether jobs of the site's have this QOS, too: somebody has it by default, or there is no other."""
    if not any(other.job_qos.admits(qos) for other in sites_on(site, partition, queue)):
        return False
    return any(member.usual_qos == qos for member in site.members) or set(site.qos) == {qos}


def limited_associations(site: Site, queue: FragmentQueue) -> list[tuple[Association, tuple[str, ...]]]:
    """Accounts and users with limits in which fragments of theirs count, each with these limits."""
    if not site.enforces_limits:
        return []
    partitions = ours(site, queue)
    owners = {
        member
        for member in site.members
        if (not queue.qos or queue.qos in member.qos)
        and any(partition.accounts.admits(member.account) for partition in partitions)
    }
    accounts = {above for owner in owners for above in site.accounts_above(owner.account)}
    found = []
    for association in site.associations:
        if association in owners or (not association.user and association.account in accounts):
            counts = (*OF_ALL, *_OF_EACH_ASSOCIATION) if association.user else OF_ALL
            limits = tuple(f"{key}={limit}" for key, limit in association.limits.items() if key.startswith(counts))
            if limits:
                found.append((association, limits))
    return found


def shares_limit(site: Site, job: Job, other: Job) -> bool:
    """Whether another job counts in the limit for which a job waits."""
    # Slurm shows what kind of limit it is, and not whose: of an account or one above it, of the job's QOS or that
    # of its partition. Where associations are not known, accounts of the same name share one.
    if job.limit is None:
        return False
    of = job.limit.of
    if of in (LimitOf.ACCOUNT, LimitOf.USER):
        is_same_user = of is LimitOf.ACCOUNT or job.user == other.user
        return is_same_user and bool(site.limited_above(job.account) & site.limited_above(other.account))
    is_same_user = of is not LimitOf.QOS_AND_USER or job.user == other.user
    is_same_account = of is not LimitOf.QOS_AND_ACCOUNT or job.account == other.account
    return is_same_user and is_same_account and bool(_qos_of(site, job) & _qos_of(site, other))


def _qos_of(site: Site, job: Job) -> Names:
    partitions = (site.partitions[name] for name in job.partition.split(",") if name in site.partitions)
    return frozenset({job.qos, *(partition.qos for partition in partitions)}) - {""}
