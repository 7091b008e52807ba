from __future__ import annotations

from math import inf
from pathlib import Path

from freetrain.slurm.parsing import parse_partitions
from freetrain.slurm.settings import parse_over_time, parse_settings
from freetrain.slurm.site.facts import Site, amounts_of, parse_associations, parse_billing, parse_names, parse_qos
from tests.slurm.site.rows import association_row, qos_row, site_of

RECORDED = Path(__file__).parents[1] / "recorded"


def line_of(row: dict[str, str]) -> str:
    return "|".join(row.values()) + "\n"


def test_a_qos_is_what_it_preempts_allows_and_costs() -> None:
    row = qos_row(
        "spare", Preempt="a,b", PreemptMode="requeue", GraceTime="00:10:00", PreemptExemptTime="00:01:30",
        Priority="7", UsageFactor="0.250000", Flags="DenyOnLimit", GrpTRES="node=8", MaxTRESPU="gres/gpu=4,node=2",
    )  # fmt: skip
    rows, rejected = parse_qos(line_of(row) + line_of(qos_row("normal")))
    assert rejected == []
    known = Site({}, qos_rows=rows).qos
    assert known is not None
    spare, normal = known["spare"], known["normal"]
    assert (spare.preempts, spare.preempt_mode, spare.grace_s, spare.exempt_s) == (
        {"a", "b"},
        "REQUEUE",
        600.0,
        90.0,
    )
    assert (spare.priority, spare.usage_factor, spare.flags) == (7, 0.25, {"DenyOnLimit"})
    assert spare.limits == {"GrpTRES": "node=8", "MaxTRESPU": "gres/gpu=4,node=2"}
    assert (normal.preempt_mode, normal.exempt_s, normal.limits) == ("", None, {})


def test_the_rows_are_those_of_a_real_slurm() -> None:
    rows, rejected = parse_qos((RECORDED / "qos_22.05.txt").read_text())
    people, odd = parse_associations((RECORDED / "assoc_22.05.txt").read_text())
    assert rejected + odd == []
    site = Site({}, qos_rows=rows, association_rows=people)
    assert site.qos["normal"].preempts == {"scavenger"}
    scavenger = site.qos["scavenger"]
    assert (scavenger.preempt_mode, scavenger.grace_s, scavenger.exempt_s) == ("REQUEUE", 600.0, 5400.0)
    assert scavenger.limits == {"MaxWall": "01:00:00", "MaxTRESPU": "cpu=8,node=2", "MaxSubmitPU": "1000"}
    assert {tie.account: tie.limits for tie in site.associations if not tie.user} == {
        "root": {}, "ml": {"GrpTRES": "cpu=4"},
    }  # fmt: skip
    assert list(site.accounts_above("ml")) == ["ml", "root"]


def test_lines_that_make_no_sense_are_named_and_others_are_read() -> None:
    rows, rejected = parse_qos(line_of(qos_row("dear", UsageFactor="much")) + "normal|1\n" + line_of(qos_row("a")))
    assert list(rows) == ["a"]
    assert [line.split("'")[1][:9] for line in rejected] == ["dear||clu", "normal|1"]
    assert parse_associations("a|b\n")[1] == ["association line not understood (17 fields are expected): 'a|b'"]


def test_an_account_has_those_above_it() -> None:
    rows = (
        association_row("root"),
        association_row("science"),
        association_row("ml", ParentName="science"),
        association_row("ml", "alice"),
    )
    site = Site({}, association_rows=rows)
    assert list(site.accounts_above("ml")) == ["ml", "science", "root"]
    circle = (association_row("a", ParentName="b"), association_row("b", ParentName="a"))
    assert list(Site({}, association_rows=circle).accounts_above("a")) == ["a", "b"]


def test_a_partition_is_its_nodes_and_those_that_it_admits() -> None:
    lines = (RECORDED / "layout_22.05.txt").read_text()
    site = site_of("PreemptType = preempt/none\n", lines)
    main, own, debug = (site.partitions[name] for name in ("main", "freetrain", "debug"))
    assert (main.is_default, main.job_qos.allow, main.qos, main.cpus_of_a_node) == (True, None, "", 4.0)
    assert (own.job_qos.admitted, own.qos, own.billing, own.over_s) == (
        {"scavenger", "normal"},
        "scavenger",
        None,
        None,
    )
    assert (debug.partition.is_up, debug.job_qos.deny) == (False, {"scavenger"})
    assert not debug.accounts.admits("phys")
    weighted = lines.splitlines()[1].replace("OverTimeLimit=NONE", "OverTimeLimit=5")
    rows, _ = parse_partitions(f"{weighted} TRESBillingWeights=CPU=1.0,Mem=0.25G,GRES/gpu=8\n")
    found = Site({}, rows).partitions["freetrain"]
    assert (found.over_s, found.billing) == (300.0, {"cpu": 1.0, "mem": 0.25, "gres/gpu": 8.0})
    assert parse_billing("(null)") is None


def test_a_limit_is_an_amount_of_each_resource() -> None:
    assert amounts_of("cpu=4,mem=16G,gres/gpu=2") == {"cpu": 4.0, "mem": 16 * 1024.0**2 * 1024, "gres/gpu": 2.0}
    assert amounts_of("cpu=many") == {"cpu": inf}


def test_what_counts_against_users() -> None:
    config = (RECORDED / "config_22.05.txt").read_text()
    found = parse_settings(config)
    assert found.has_accounting
    assert found.enforces == {"associations", "limits", "qos"}
    assert found.charges, "limits on usage are enforced"
    free = parse_settings(config.replace("associations,limits,qos", "associations"))
    assert not free.charges
    assert parse_settings(
        config.replace("associations,limits,qos", "none").replace("/basic", "/multifactor")
    ).charges


def test_nodes_are_powered_down_where_there_is_a_program_for_it() -> None:
    config = (RECORDED / "config_22.05.txt").read_text()
    assert parse_settings(config).suspend_s == inf
    timed = config.replace("SuspendTime             = INFINITE", "SuspendTime             = 600 sec")
    assert parse_settings(timed).suspend_s == inf
    off = timed.replace("SuspendProgram          = (null)", "SuspendProgram          = /sbin/off")
    kept = off.replace("SuspendExcNodes         = (null)", "SuspendExcNodes         = n[1-2]")
    assert (parse_settings(off).suspend_s, parse_settings(off).suspend_not) == (600.0, ("", ""))
    assert parse_settings(kept).suspend_not == ("n[1-2]", "")


def test_limits_may_be_overrun_by_minutes_or_for_ever() -> None:
    assert parse_over_time("5") == 300.0
    assert parse_over_time("10 min") == 600.0
    assert parse_over_time("UNLIMITED") == inf
    assert parse_over_time("NONE") is None


def test_names_come_one_in_a_line() -> None:
    assert parse_names("alice\nbob|\n\n") == {"alice", "bob"}
