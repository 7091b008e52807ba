"""Which jobs count in the limit for which another waits."""

from __future__ import annotations

from dataclasses import replace

from freetrain.core.job import Job, JobState, LimitOf, SharedLimit
from freetrain.slurm.site.facts import Site
from freetrain.slurm.site.limits import shares_limit
from tests.slurm.site.rows import association_row, partition_row, qos_row
from tests.slurm.site.test_terms import OWN

TREE = (
    association_row("root"),
    association_row("science", GrpTRES="cpu=96"),
    association_row("ml", ParentName="science"),
    association_row("bio", ParentName="science", GrpJobs="9"),
    association_row("arts"),
)
SITE = Site(
    {"PreemptType": "preempt/none"},
    {"freetrain": partition_row(OWN, QoS="part")},
    {name: qos_row(name) for name in ("normal", "part", "spare")},
    TREE,
)


def job(account: str, user: str = "alice", qos: str = "normal", partition: str = "main") -> Job:
    return Job("1", "1", user, partition, JobState.PENDING, account=account, qos=qos)


def waiting(of: LimitOf, account: str = "ml", qos: str = "normal", partition: str = "main") -> Job:
    return replace(job(account, "bob", qos, partition), limit=SharedLimit(of, "cpu"))


def test_accounts_share_the_limits_of_an_account_above_them() -> None:
    assert shares_limit(SITE, waiting(LimitOf.ACCOUNT), job("bio"))
    assert shares_limit(SITE, waiting(LimitOf.ACCOUNT), job("ml"))
    assert not shares_limit(SITE, waiting(LimitOf.ACCOUNT), job("arts"))


def test_without_associations_accounts_share_what_they_bear_the_name_of() -> None:
    alone = Site(SITE.conf)
    assert shares_limit(alone, waiting(LimitOf.ACCOUNT), job("ml"))
    assert not shares_limit(alone, waiting(LimitOf.ACCOUNT), job("bio"))


def test_the_limit_of_a_user_counts_that_users_jobs_alone() -> None:
    assert not shares_limit(SITE, waiting(LimitOf.USER), job("ml", "alice"))
    assert shares_limit(SITE, waiting(LimitOf.USER), job("ml", "bob"))


def test_the_qos_of_a_partition_counts_too() -> None:
    assert not shares_limit(SITE, waiting(LimitOf.QOS), job("ml", qos="spare"))
    assert shares_limit(SITE, waiting(LimitOf.QOS, qos="part"), job("ml", qos="spare", partition="freetrain"))
    assert shares_limit(SITE, waiting(LimitOf.QOS_AND_ACCOUNT), job("ml"))
    assert not shares_limit(SITE, waiting(LimitOf.QOS_AND_ACCOUNT), job("bio"))
    assert not shares_limit(SITE, waiting(LimitOf.QOS_AND_USER), job("ml"))


def test_a_job_that_waits_for_no_limit_shares_none() -> None:
    assert not shares_limit(SITE, job("ml"), job("ml"))
