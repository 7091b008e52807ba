"""Advice is applied to the model before it is printed: it mends, and the site's own jobs feel nothing of it."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.node import Partition
from freetrain.slurm.finding import warning
from freetrain.slurm.parsing.words import Row
from freetrain.slurm.site.advice import MendingPlan, advise, best_plan, harmless
from freetrain.slurm.site.changes import qos
from freetrain.slurm.site.facts import Site
from freetrain.slurm.site.harm import Premise, judge_harm
from freetrain.slurm.site.preemption import is_of_fragments, kinds_of, may_preempt
from freetrain.slurm.site.terms import judge_terms
from tests.slurm.site.rows import association_row, partition_row, qos_row

NODES = frozenset(f"n{number}" for number in range(1, 9))
ACCOUNTING = {
    "AccountingStorageType": "accounting_storage/slurmdbd",
    "AccountingStorageEnforce": "associations,limits,qos",
}


def tiers(**partitions: int) -> dict[str, Row]:
    """Partitions over all nodes, the first of them Slurm's default; none of their jobs is preempted."""
    return {
        name: partition_row(Partition(name, NODES, True, tier, "OFF"), Default="YES" if number == 0 else "NO")
        for number, (name, tier) in enumerate(partitions.items())
    }


def by_qos(partitions: dict[str, Row], **preempts: str) -> Site:
    conf = ACCOUNTING | {"PreemptType": "preempt/qos", "PreemptMode": "REQUEUE"}
    qos = {name: qos_row(name, Preempt=names) for name, names in preempts.items()}
    people = (
        association_row("ml"),
        association_row("ml", "alice"),
        association_row("ml", "bob", QOS="high,normal"),
    )
    return Site(conf, {name: row | {"PreemptMode": "REQUEUE"} for name, row in partitions.items()}, qos, people)


def without_preemption(partitions: dict[str, Row]) -> Site:
    return Site({"PreemptType": "preempt/none", "PreemptMode": "OFF"}, partitions)


def plan_of(site: Site, partition: str = "freetrain", qos: str = "") -> MendingPlan:
    plan = best_plan(site, Premise(FragmentQueue(partition, qos)))
    assert plan is not None
    check(site, plan, FragmentQueue(partition, qos))
    return plan


def lines(plan: MendingPlan) -> list[str]:
    return [line for change in plan.all_changes for line in change.line.splitlines()]


def check(site: Site, plan: MendingPlan, meant: FragmentQueue) -> None:
    """Nothing is unsafe after it, and each pair of the site's kinds of jobs is as it was; none is locked out."""
    assert not any(finding.is_unsafe for finding in judge_harm(plan.site, Premise(plan.queue)))
    own = [plan.queue] + ([meant] if meant.partition == plan.queue.partition and not meant.qos else [])
    kinds = [kind for kind in kinds_of(site) if not any(is_of_fragments(kind, queue) for queue in own)]
    for taker, holder in product(kinds, repeat=2):
        before, after = may_preempt(site, taker, holder), may_preempt(plan.site, taker, holder)
        assert before is after, (taker, holder, lines(plan))
    for kind in kinds:
        assert not kind.qos or plan.site.partitions[kind.partition].job_qos.admits(kind.qos), lines(plan)
    for name, row in site.partition_rows.items():
        if row.get("Default") == "YES" and name not in plan.queue.partitions:
            assert plan.site.partitions[name].is_default


def test_where_tiers_only_order_preemption_is_switched_on_for_fragments_alone() -> None:
    plan = plan_of(without_preemption(tiers(low=1, high=5)))
    assert lines(plan) == [
        "scontrol update PartitionName=high PreemptMode=OFF",
        "scontrol update PartitionName=low PreemptMode=OFF",
        "PartitionName=freetrain Nodes=n[1-8] PriorityTier=0 PreemptMode=REQUEUE GraceTime=0 MaxTime=1-00:00:00 "
        "State=UP",
        "PreemptType=preempt/partition_prio",
        "PreemptMode=REQUEUE",
    ]


@pytest.mark.parametrize("levels", [(1, 5), (10, 20, 40), (3, 3, 3), (0, 1), (0, 0)])
def test_the_order_of_the_sites_partitions_stays(levels: tuple[int, ...]) -> None:
    site = without_preemption(tiers(**{f"p{number}": tier for number, tier in enumerate(levels)}))
    after = plan_of(site).site.partitions
    new = [after[f"p{number}"].partition.priority_tier for number in range(len(levels))]
    assert sorted(range(len(new)), key=lambda number: new[number]) == sorted(
        range(len(levels)), key=lambda number: levels[number]
    )
    assert after["freetrain"].partition.priority_tier < min(new)


def test_a_site_that_preempts_among_its_own_jobs_goes_on_to_do_exactly_that() -> None:
    conf = {"PreemptType": "preempt/partition_prio", "PreemptMode": "REQUEUE"}
    partitions = tiers(low=1, high=5)
    partitions["low"] = {**partitions["low"], "PreemptMode": "REQUEUE"}
    plan = plan_of(Site(conf, partitions))
    assert [line.partition(" ")[0] for line in lines(plan)] == ["PartitionName=freetrain"]


THREE = {"normal": "freetrain", "high": "freetrain,normal", "low": "freetrain", "freetrain": ""}
"""A site whose QOS high preempts normal, and all of whose QOS preempt that of fragments."""


def test_a_partition_that_admits_an_ordinary_qos_too_is_mended_in_freetrains_own_file() -> None:
    partitions = tiers(main=2, freetrain=1)
    partitions["freetrain"] = {**partitions["freetrain"], "AllowQos": "freetrain,normal"}
    assert lines(plan_of(by_qos(partitions, **THREE))) == ["[slurm]", 'qos = "freetrain"']


def test_a_forgotten_qos_is_one_line_in_freetrains_own_file() -> None:
    site = by_qos(tiers(main=2), **THREE)
    assert lines(plan_of(site, "main")) == ["[slurm]", 'qos = "freetrain"']
    unsafe = [finding for finding in advise(site, Premise(FragmentQueue("main"))).findings if finding.is_unsafe]
    assert [finding.mend for finding in unsafe[1:]] == [""] * (len(unsafe) - 1), "what is printed is typed"


def test_an_ordinary_qos_is_never_taken_for_that_of_fragments() -> None:
    site = by_qos(tiers(main=2), **THREE)
    assert lines(plan_of(site, "main", "normal")) == ["[slurm]", 'qos = "freetrain"']


def test_a_misspelt_qos_is_asked_about() -> None:
    site = by_qos(tiers(main=2), **THREE)
    (first, *_) = advise(site, Premise(FragmentQueue("main", "freetrian"))).findings
    assert "Slurm has no QOS freetrian" in first.what
    assert first.what.endswith("Did you mean freetrain?")
    assert first.mend == '[slurm]\nqos = "freetrain"'


def test_a_misspelt_partition_too() -> None:
    conf = {"PreemptType": "preempt/partition_prio", "PreemptMode": "REQUEUE"}
    partitions = tiers(main=2, spare=1)
    partitions["spare"] = {**partitions["spare"], "PreemptMode": "REQUEUE"}
    assert lines(plan_of(Site(conf, partitions), "spaer")) == ["[slurm]", 'partition = "spare"']


def test_the_sites_own_partition_is_left_alone() -> None:
    plan = plan_of(without_preemption(tiers(main=1, high=5)), "main")
    assert plan.queue.partition == "freetrain"
    assert not any("main" in line and "PreemptMode=OFF" not in line for line in lines(plan))


def test_a_first_qos_for_fragments_is_preempted_by_every_other_and_it_is_named_whom_that_concerns() -> None:
    site = by_qos(tiers(main=2), normal="", high="normal")
    (first, *_) = advise(site, Premise(FragmentQueue("main", "spare"))).findings
    assert "sacctmgr -i add qos spare" in first.mend
    plan = plan_of(site, "main", "spare")
    assert {
        "sacctmgr -i modify qos normal set Preempt+=spare",
        "sacctmgr -i modify qos high set Preempt+=spare",
    } <= set(lines(plan))
    findings = advise(site, Premise(FragmentQueue("main", "spare"))).findings
    assert any("QOS normal (all 2 users without another QOS)" in finding.what for finding in findings)


def test_where_nothing_mends_it_without_harm_no_line_is_printed() -> None:
    conf = {"PreemptType": "preempt/partition_prio", "PreemptMode": "REQUEUE,PRIORITY"}
    partitions = {name: row | {"PreemptMode": "REQUEUE,PRIORITY"} for name, row in tiers(low=1, high=5).items()}
    advice = advise(Site(conf, partitions), Premise(FragmentQueue("freetrain")))
    assert advice.plan is None
    assert any(finding.is_unsafe for finding in advice.findings)
    assert all(finding.mend == "" for finding in advice.findings if finding.is_unsafe)


TIERS = st.integers(0, 4)
MODES = st.sampled_from(["OFF", "REQUEUE", "CANCEL", "SUSPEND", "REQUEUE,PRIORITY"])
QOS = ("normal", "high", "low", "freetrain", "scavenger")


@st.composite
def sites(draw: st.DrawFn) -> Site:
    """Partitions with overlapping nodes, tiers and modes; QOS that preempt each other; any way of preemption."""
    names = draw(
        st.lists(st.sampled_from(["main", "debug", "gpu", "freetrain", "spare"]), min_size=1, unique=True)
    )
    known = draw(st.lists(st.sampled_from(QOS), min_size=1, unique=True))
    default = draw(st.sampled_from(names))
    rows = {}
    for name in names:
        nodes = draw(st.sampled_from([NODES, frozenset(sorted(NODES)[:4]), frozenset(sorted(NODES)[3:])]))
        admitted = draw(st.one_of(st.none(), st.sets(st.sampled_from(known), min_size=1)))
        row = partition_row(Partition(name, nodes, True, draw(TIERS), draw(MODES)))
        allow = {"AllowQos": ",".join(sorted(admitted)) if admitted else "ALL"}
        rows[name] = row | allow | {"Default": "YES" if name == default else "NO"}
    qos = {}
    for name in known:
        preempts = draw(st.sets(st.sampled_from(known))) - {name}
        mode = draw(st.sampled_from(["cluster", "requeue", "cancel", "within"]))
        qos[name] = qos_row(name, Preempt=",".join(sorted(preempts)), PreemptMode=mode)
    conf = ACCOUNTING | draw(
        st.sampled_from(
            [
                {"PreemptType": "preempt/none", "PreemptMode": "OFF"},
                {"PreemptType": "preempt/partition_prio", "PreemptMode": "REQUEUE"},
                {"PreemptType": "preempt/partition_prio", "PreemptMode": "CANCEL"},
                {"PreemptType": "preempt/qos", "PreemptMode": "REQUEUE"},
            ]
        )
    )
    if conf["PreemptType"] == "preempt/none":
        rows = {name: row | {"PreemptMode": "OFF"} for name, row in rows.items()}
    default_qos = draw(st.sampled_from(["", *known]))
    people = (association_row("ml"), association_row("ml", "alice", DefaultQOS=default_qos, QOS=",".join(known)))
    return Site(conf, rows, qos, people)


@settings(max_examples=120, deadline=None)
@given(
    sites(),
    st.sampled_from(["freetrain", "main", "spare", "freetrian"]),
    st.sampled_from(["", "", "freetrain", "normal", "freetrian", "scavenger"]),
)
def test_whatever_the_site_and_the_premise_advice_mends_and_changes_nothing_for_the_sites_own_jobs(
    site: Site, partition: str, qos: str
) -> None:
    premise = Premise(FragmentQueue(partition, qos))
    plan = best_plan(site, premise)
    if plan is not None:
        check(site, plan, premise.queue)
    advice = advise(site, premise)
    if any(finding.is_unsafe for finding in advice.findings) and advice.plan is not None:
        printed = [change for finding in advice.findings if finding.is_unsafe for change in finding.changes]
        assert set(plan_lines(advice.plan)) == {line for change in printed for line in change.line.splitlines()}


def plan_lines(plan: MendingPlan) -> list[str]:
    return [line for change in plan.all_changes for line in change.line.splitlines()]


@settings(max_examples=40, deadline=None)
@given(sites())
def test_a_site_that_does_not_preempt_yet_always_gets_a_plan(site: Site) -> None:
    off = {name: row | {"PreemptMode": "OFF", "AllowQos": "ALL"} for name, row in site.partition_rows.items()}
    plain = Site({"PreemptType": "preempt/none", "PreemptMode": "OFF"}, off)
    assert plan_of(plain, "fragments").all_changes


def test_no_warning_has_a_line_that_follows_from_a_wrong_premise() -> None:
    partitions = tiers(main=2, freetrain=1)
    partitions["freetrain"] = {**partitions["freetrain"], "AllowQos": "freetrain,normal"}
    printed = [
        finding.mend
        for finding in advise(by_qos(partitions, **THREE), Premise(FragmentQueue("freetrain"))).findings
    ]
    assert printed == ['[slurm]\nqos = "freetrain"', "scontrol update PartitionName=main DenyQos=freetrain"]


def test_an_ordinary_qos_is_not_limited_for_the_sake_of_fragments() -> None:
    partitions = tiers(main=2, freetrain=1)
    partitions["freetrain"] = {**partitions["freetrain"], "PreemptMode": "REQUEUE", "QoS": "normal"}
    conf = ACCOUNTING | {"PreemptType": "preempt/partition_prio", "PreemptMode": "REQUEUE"}
    people = (association_row("ml"), association_row("ml", "alice"))
    site = Site(conf, partitions, {"normal": qos_row("normal")}, people)
    mends = [finding.mend for finding in judge_terms(site, Premise(FragmentQueue("freetrain")))]
    assert not any("modify qos normal" in mend for mend in mends)
    assert any(mend.endswith("scontrol update PartitionName=freetrain QOS=freetrain") for mend in mends)
    limiting = warning("No.", qos("normal", "GrpTRES", "node=3"))
    assert harmless(site, FragmentQueue("freetrain"), limiting).mend == ""


def test_fragments_get_out_of_a_limit_of_an_ordinary_qos_by_a_qos_of_their_own() -> None:
    partitions = tiers(main=2, freetrain=1)
    partitions["freetrain"] = {**partitions["freetrain"], "PreemptMode": "REQUEUE"}
    conf = ACCOUNTING | {"PreemptType": "preempt/partition_prio", "PreemptMode": "REQUEUE"}
    people = (association_row("ml"), association_row("ml", "alice"))
    plan = plan_of(Site(conf, partitions, {"normal": qos_row("normal", GrpTRES="node=3")}, people))
    assert plan.queue == FragmentQueue("freetrain", "freetrain")
    assert {"scontrol update PartitionName=freetrain AllowQos=freetrain", 'qos = "freetrain"'} <= set(lines(plan))
