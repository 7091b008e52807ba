"""The texts are those of Slurm 22.05: the settings, partitions and QOS that it shows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from freetrain.core.fragment_queue import FragmentQueue
from freetrain.slurm.finding import Finding
from freetrain.slurm.parsing.words import Row
from freetrain.slurm.site.harm import Premise, judge_harm
from freetrain.slurm.site.preemption import exempt_s
from tests.slurm.site.rows import association_row, qos_row, site_of

RECORDED = Path(__file__).parents[1] / "recorded"
CONFIG = (RECORDED / "preemption_22.05.txt").read_text()
MAIN, FREETRAIN, DEBUG = (RECORDED / "layout_22.05.txt").read_text().splitlines()
SAFE_DEBUG = DEBUG.replace("State=INACTIVE", "State=UP").replace("DenyQos=scavenger", "AllowQos=ALL")
SAFE = FREETRAIN.replace("AllowQos=scavenger,normal", "AllowQos=ALL")
BY_QOS = CONFIG.replace("preempt/partition_prio", "preempt/qos")
FENCED = FREETRAIN.replace("AllowQos=scavenger,normal", "AllowQos=scavenger")
QOS = {"normal": qos_row("normal", Preempt="scavenger"), "scavenger": qos_row("scavenger", PreemptMode="requeue")}
SITES = [
    MAIN.replace("AllowQos=ALL", "DenyQos=scavenger"),
    SAFE_DEBUG.replace("AllowQos=ALL", "DenyQos=scavenger"),
]


Qos = Mapping[str, Row]


def with_qos(name: str, **fields: str) -> Qos:
    """The usual QOS, of which one is changed or added."""
    return {**QOS, name: {**QOS.get(name, qos_row(name)), **fields}}


def judged(
    config: str = CONFIG,
    partitions: tuple[str, ...] = (MAIN, SAFE, SAFE_DEBUG),
    qos: Qos | None = None,
    name: str = "freetrain",
    owners: frozenset[tuple[str, str]] = frozenset(),
    fragments: str = "",
) -> list[Finding]:
    site = site_of(config, "\n".join(partitions), qos)
    return judge_harm(site, Premise(FragmentQueue(name, fragments), 60.0, owners))


def by_qos(*partitions: str, qos: Qos = QOS, config: str = BY_QOS) -> list[Finding]:
    return judged(config, partitions or (FENCED, *SITES), qos)


def test_a_safe_site_has_no_findings() -> None:
    assert judged() == []
    assert by_qos() == []


UPDATE = "scontrol update PartitionName=freetrain"


@pytest.mark.parametrize(
    ("change", "what", "mend", "is_unsafe"),
    [
        (("PriorityTier=0", "PriorityTier=1"), "debug shares 4 nodes", f"{UPDATE} PriorityTier=0", True),
        (("PriorityTier=0", "PriorityTier=5"), "debug shares 4 nodes", f"{UPDATE} PriorityTier=0", True),
        (("PreemptMode=REQUEUE", "PreemptMode=OFF"), "never preempted", f"{UPDATE} PreemptMode=REQUEUE", True),
        (("PreemptMode=REQUEUE", "PreemptMode=SUSPEND"), "suspended", f"{UPDATE} PreemptMode=REQUEUE", True),
        (("PreemptMode=REQUEUE", "PreemptMode=GANG,SUSPEND"), "suspended", f"{UPDATE} PreemptMode=REQUEUE", True),
        (("GraceTime=0", "GraceTime=600"), "wait up to 600 s", f"{UPDATE} GraceTime=0", True),
        (("GraceTime=0", "GraceTime=30"), "wait up to 30 s", f"{UPDATE} GraceTime=0", False),
        (("State=UP", "State=DOWN"), "is DOWN: no fragment can start", f"{UPDATE} State=UP", False),
        (("State=UP", "State=DRAIN"), "is DRAIN: no fragment can start", f"{UPDATE} State=UP", False),
        (("Default=NO", "Default=YES"), "Slurm's default", f"{UPDATE} Default=NO", True),
        (("AllowAccounts=ALL", "AllowAccounts=bio"), "news (account ml)", f"{UPDATE} AllowAccounts=bio,ml", False),
        (("AllowAccounts=ALL", "DenyAccounts=ml,x"), "news (account ml)", f"{UPDATE} DenyAccounts=x", False),
    ],
)
def test_what_is_wrong_with_freetrains_partition(
    change: tuple[str, str], what: str, mend: str, is_unsafe: bool
) -> None:
    assert change[0] in SAFE
    (found,) = judged(partitions=(MAIN, SAFE.replace(*change), SAFE_DEBUG), owners=frozenset({("news", "ml")}))
    assert what in found.what
    assert (found.mend, found.is_unsafe) == (mend, is_unsafe)


@pytest.mark.parametrize(
    ("before", "after", "what", "mend", "is_unsafe"),
    [
        ("preempt/partition_prio", "preempt/none", "does not preempt", "PreemptType=preempt/partition_prio", True),
        ("= REQUEUE", "= OFF", "does not preempt", "PreemptMode=REQUEUE", True),
        ("= REQUEUE", "= REQUEUE,PRIORITY", "higher priority", "PreemptMode=REQUEUE", True),
        ("= 00:00:00", "= 00:02:00", "wait up to 120 s", "PreemptExemptTime=00:00:00", True),
        ("= 00:00:00", "= 00:00:20", "wait up to 20 s", "PreemptExemptTime=00:00:00", False),
        ("= 0 sec", "= 16 sec", "starts nothing for up to 16 s (CompleteWait=16)", "CompleteWait=0", False),
        ("= 0 sec", "= 90 sec", "starts nothing for up to 90 s (CompleteWait=90)", "CompleteWait=0", True),
        ("bf_interval=3", "preempt_youngest_first", "began last", "SchedulerParameters=bf_continue", False),
        ("bf_interval=3", "defer", "found later", "SchedulerParameters=bf_continue", False),
    ],
)
def test_what_is_wrong_with_the_clusters_settings(
    before: str, after: str, what: str, mend: str, is_unsafe: bool
) -> None:
    assert before in CONFIG
    (found,) = judged(CONFIG.replace(before, after))
    assert what in found.what
    assert mend in found.mend
    assert found.is_unsafe is is_unsafe


@pytest.mark.parametrize(
    ("parameter", "is_unsafe"),
    [("youngest_first", False), ("reclaim_licenses", False), ("min_exempt_priority=1000", True)],
)
def test_parameters_of_preemption(parameter: str, is_unsafe: bool) -> None:
    (found,) = judged(f"{CONFIG}PreemptParameters       = strict_order,{parameter}\n")
    assert (found.mend, found.is_unsafe) == ("PreemptParameters=strict_order", is_unsafe)


def test_a_partition_of_which_others_have_no_nodes_is_unsafe() -> None:
    (alone,) = judged(partitions=(SAFE, MAIN.replace("n[001-004]", "m[1-4]")))
    assert "No other partition has nodes" in alone.what
    assert alone.is_unsafe


def test_partitions_without_common_nodes_do_not_matter() -> None:
    apart = SAFE_DEBUG.replace("n[001-004]", "x[1-9]").replace("PriorityTier=1", "PriorityTier=0")
    assert judged(partitions=(MAIN, SAFE, apart)) == []


@pytest.mark.parametrize(
    ("qos", "what", "mend"),
    [
        (
            with_qos("urgent"),
            "QOS urgent do not preempt those with QOS scavenger",
            "sacctmgr -i modify qos urgent set Preempt+=scavenger",
        ),
        (
            with_qos("scavenger", GraceTime="00:10:00"),
            "600 s for each fragment of QOS scavenger",
            "sacctmgr -i modify qos scavenger set GraceTime=0",
        ),
        (
            with_qos("scavenger", PreemptExemptTime="00:05:00"),
            "300 s for each fragment that has just begun",
            "sacctmgr -i modify qos scavenger set PreemptExemptTime=00:00:00",
        ),
        (
            with_qos("scavenger", PreemptMode="suspend"),
            "suspended",
            "sacctmgr -i modify qos scavenger set PreemptMode=requeue",
        ),
        (
            with_qos("normal", PreemptMode="priority"),
            "only what has less priority",
            "sacctmgr -i modify qos normal set PreemptMode=cluster",
        ),
    ],
)
def test_what_is_wrong_with_qos(qos: Qos, what: str, mend: str) -> None:
    (found,) = by_qos(qos=qos)
    assert what in found.what
    assert (found.mend, found.is_unsafe) == (mend, True)


def test_a_qos_that_takes_the_clusters_mode_is_judged_by_that() -> None:
    (found,) = by_qos(
        qos=with_qos("scavenger", PreemptMode="cluster"), config=BY_QOS.replace("= REQUEUE", "= GANG,SUSPEND")
    )
    assert "suspended, not ended (PreemptMode=GANG,SUSPEND)" in found.what


def test_fragments_must_be_fenced_into_their_qos() -> None:
    (found,) = by_qos(FENCED.replace("AllowQos=scavenger", "AllowQos=ALL"), *SITES)
    assert "admits every QOS" in found.what
    assert found.mend == f"{UPDATE} AllowQos=scavenger"


def test_jobs_of_the_site_in_the_qos_of_fragments_are_only_warned_of() -> None:
    (found,) = by_qos(FENCED, MAIN)
    assert (found.mend, found.is_unsafe) == ("scontrol update PartitionName=main DenyQos=scavenger", False)
    (found,) = by_qos(FENCED, MAIN.replace("AllowQos=ALL", "AllowQos=normal,scavenger"))
    assert found.mend == "scontrol update PartitionName=main AllowQos=normal"


def test_qos_that_nobody_knows_are_not_taken_for_safe() -> None:
    (found,) = judged(BY_QOS, (FENCED, *SITES), None)
    assert (found.is_unsafe, "Nobody can say" in found.what) == (True, True)


def test_a_later_slurm_shows_the_same() -> None:
    site = site_of(CONFIG, (RECORDED / "partition_25.11.txt").read_text())
    assert [name for name, partition in site.partitions.items() if partition.is_default] == ["main"]
    assert all(
        partition.accounts.admits("any") and partition.job_qos.admits("any")
        for partition in site.partitions.values()
    )
    found = judge_harm(site, Premise(FragmentQueue("freetrain")))
    assert [(finding.mend, finding.is_unsafe) for finding in found] == [
        (
            "\n".join(
                [
                    "scontrol update PartitionName=main PriorityTier=11",
                    "scontrol update PartitionName=odd PriorityTier=1",
                    f"{UPDATE} PriorityTier=0",
                ]
            ),
            True,
        ),
        (f"{UPDATE} GraceTime=0", False),
    ]


# Fragments in the site's own partition, told from its jobs by QOS scavenger.

SHARED = (MAIN, SAFE_DEBUG.replace("AllowQos=ALL", "DenyQos=scavenger"))


def shared(*partitions: str, qos: Qos = QOS, config: str = BY_QOS) -> list[Finding]:
    return judged(config, partitions or SHARED, qos, "main", fragments="scavenger")


def test_a_partition_of_the_sites_own_is_safe_where_every_other_qos_in_it_preempts_that_of_fragments() -> None:
    assert shared() == [], "although it is the default, of the highest tier, and admits every QOS"
    (found,) = shared(qos=with_qos("urgent"))
    assert "Jobs with QOS urgent do not preempt those with QOS scavenger" in found.what
    assert (found.mend, found.is_unsafe) == ("sacctmgr -i modify qos urgent set Preempt+=scavenger", True)
    fenced = MAIN.replace("AllowQos=ALL", "AllowQos=normal,scavenger")
    assert shared(fenced, qos=with_qos("urgent")) == [], "no job in it can have that one"


def test_tiers_do_not_matter_where_preemption_is_by_qos() -> None:
    lower = SHARED[1].replace("PriorityTier=1 ", "PriorityTier=0 ")
    assert lower != SHARED[1]
    assert shared(MAIN, lower) == []


def test_by_partition_no_job_preempts_another_in_the_same_one() -> None:
    (found,) = shared(config=CONFIG)
    assert "take no nodes from fragments in the same one, whatever their QOS" in found.what
    assert (found.mend, found.is_unsafe) == ("PreemptType=preempt/qos", True)
    own = MAIN.replace("AllowQos=ALL", "AllowQos=scavenger").replace("PriorityTier=10", "PriorityTier=0")
    own = own.replace("Default=YES", "Default=NO").replace("PreemptMode=OFF", "PreemptMode=REQUEUE")
    assert shared(own, SHARED[1], config=CONFIG) == [], "no job of the site's can be in it"


def test_fragments_must_be_admitted() -> None:
    (found,) = shared(MAIN.replace("AllowQos=ALL", "AllowQos=normal"))
    assert (found.mend, found.is_unsafe) == ("scontrol update PartitionName=main AllowQos=normal,scavenger", True)
    (found,) = shared(MAIN.replace("AllowQos=ALL", "DenyQos=scavenger,urgent"))
    assert found.mend == "scontrol update PartitionName=main DenyQos=urgent"


def test_fragments_that_preempt_the_sites_jobs_are_refused() -> None:
    found = [finding for finding in shared(qos=with_qos("scavenger", Preempt="normal")) if finding.is_unsafe]
    assert [finding.mend for finding in found] == ["sacctmgr -i modify qos scavenger set Preempt-=normal"]
    assert "which preempts jobs with QOS normal: the site's" in found[0].what


LIMITED = f"{BY_QOS}AccountingStorageType = accounting_storage/slurmdbd\nAccountingStorageEnforce = limits,qos\n"


def test_what_fragments_have_of_a_limit_that_counts_for_the_sites_jobs_too_is_refused() -> None:
    known = with_qos("part", Preempt="scavenger", GrpTRES="node=4")
    (found,) = shared(MAIN.replace("QoS=N/A", "QoS=part"), SHARED[1], qos=known, config=LIMITED)
    assert "QOS part limits what all jobs in partition main have together (GrpTRES=node=4)" in found.what
    assert found.mends[0][1].startswith("PartitionName=freetrain Nodes=n[001-004] AllowQos=scavenger")
    assert found.is_unsafe


def test_limits_of_each_user_are_warned_of() -> None:
    known = with_qos("part", Preempt="scavenger", MaxTRESPU="node=2")
    (found,) = shared(MAIN.replace("QoS=N/A", "QoS=part"), SHARED[1], qos=known, config=LIMITED)
    assert "QOS part limits what each user or account has in partition main (MaxTRESPU=node=2)" in found.what
    assert not found.is_unsafe


def test_a_limit_of_the_usual_qos_that_fragments_have_too_is_refused_with_a_qos_of_their_own() -> None:
    known = {"normal": qos_row("normal", GrpTRES="cpu=96")}
    people = (association_row("ml"), association_row("ml", "alice"))
    config = LIMITED.replace("preempt/qos", "preempt/partition_prio")
    site = site_of(config, "\n".join((MAIN, SAFE, SAFE_DEBUG)), known, people)
    (found,) = judge_harm(site, Premise(FragmentQueue("freetrain")))
    assert "QOS normal limits what all jobs with it have together (GrpTRES=cpu=96)" in found.what
    assert found.is_unsafe
    assert found.mend.splitlines() == [
        "sacctmgr -i add qos freetrain",
        "sacctmgr -i modify qos freetrain set PreemptMode=requeue",
        "sacctmgr -i modify qos freetrain set UsageFactor=0",
        "sacctmgr -i modify qos freetrain set GrpTRES=node=4",
        "sacctmgr -i modify qos freetrain set MaxSubmitJobsPU=1000",
        "sacctmgr -i modify account ml set QOS+=freetrain",
        "scontrol update PartitionName=freetrain AllowQos=freetrain",
        "[slurm]",
        'qos = "freetrain"',
    ]


def test_a_qos_whose_mode_has_flags_only_is_never_preempted() -> None:
    (found,) = shared(qos=with_qos("scavenger", PreemptMode="within"))
    assert (found.is_unsafe, "never preempted (PreemptMode=WITHIN)" in found.what) == (True, True)


@pytest.mark.parametrize(("given", "expected_s"), [("", 20.0), ("00:00:00", 0.0)])
def test_the_exempt_time_of_a_qos_comes_before_the_clusters(given: str, expected_s: float) -> None:
    config = BY_QOS.replace("= 00:00:00", "= 00:00:20")
    site = site_of(config, "\n".join(SHARED), with_qos("scavenger", PreemptExemptTime=given))
    assert exempt_s(site, FragmentQueue("main", "scavenger")) == expected_s


def test_an_exempt_time_of_a_qos_counts_too_where_preemption_is_by_partition() -> None:
    (found,) = judged(qos=with_qos("normal", Preempt="", PreemptExemptTime="00:05:00"))
    assert "wait up to 300 s for each fragment that has just begun (QOS normal: 00:05:00)" in found.what
    assert (found.mend, found.is_unsafe) == (f"{UPDATE} DenyQos=normal", True)
    fenced = SAFE.replace("AllowQos=ALL", "AllowQos=scavenger")
    long = with_qos("scavenger", PreemptExemptTime="00:05:00")
    (found,) = judged(partitions=(MAIN, fenced, SAFE_DEBUG), qos=long, fragments="scavenger")
    assert found.mend == "sacctmgr -i modify qos scavenger set PreemptExemptTime=00:00:00"


def test_a_signal_that_scripts_ask_for_delays_fragments_in_their_grace_time_only() -> None:
    config = f"{BY_QOS}PreemptParameters       = send_user_signal,strict_order\n"
    assert shared(config=config) == []
    found = shared(config=config, qos=with_qos("scavenger", GraceTime="00:00:20"))
    assert [(finding.mend, finding.is_unsafe) for finding in found] == [
        ("sacctmgr -i modify qos scavenger set GraceTime=0", False),
        ("PreemptParameters=strict_order", False),
    ]


def test_of_several_partitions_of_fragments_each_is_judged_and_none_is_warned_of_the_others() -> None:
    second = DEBUG.replace("PartitionName=debug", "PartitionName=second").replace("State=INACTIVE", "State=UP")
    site = site_of(BY_QOS, f"{MAIN}\n{second}", QOS)
    both = Premise(FragmentQueue("main,second", "scavenger"))
    assert [finding.what for finding in judge_harm(site, both)] == [
        "Partition second does not admit QOS scavenger: no fragment can start."
    ]
    assert exempt_s(site, both.queue) == 0.0
    admitting = site_of(BY_QOS, f"{MAIN}\n{second.replace('DenyQos=scavenger', 'AllowQos=ALL')}", QOS)
    assert judge_harm(admitting, both) == []
    (found,) = judge_harm(admitting, Premise(FragmentQueue("main", "scavenger")))
    assert "Jobs in partition second that ask for QOS scavenger do not preempt fragments" in found.what
