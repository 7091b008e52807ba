from __future__ import annotations

from math import inf
from pathlib import Path

from freetrain.slurm.layout_facts import parse_billing, parse_partition_rules
from freetrain.slurm.settings import parse_over_time, parse_settings
from freetrain.slurm.terms_facts import QosTerms, parse_names, parse_qos_terms

RECORDED = Path(__file__).parent / "recorded"


def test_the_terms_of_a_qos_are_its_charge_and_its_limits() -> None:
    text = "normal|1.000000|||||||||\nscavenger|0.250000|node=8||gres/gpu=4,node=2|3||||1000|\n"
    found, rejected = parse_qos_terms(text)
    assert rejected == []
    assert found == {
        "normal": QosTerms("normal", 1.0),
        "scavenger": QosTerms(
            "scavenger",
            0.25,
            ("GrpTRES=node=8", "MaxTRESPU=gres/gpu=4,node=2", "MaxJobsPU=3"),
            ("MaxSubmitPU=1000",),
        ),
    }
    assert parse_qos_terms("normal|much||||||\nnormal|1\n")[1] == [
        "QOS line not understood: 'normal|much||||||'",
        "QOS line not understood: 'normal|1'",
    ]


def test_the_terms_of_a_partition() -> None:
    line = (RECORDED / "layout_22.05.txt").read_text().splitlines()[1]
    (plain,) = parse_partition_rules(line)[0].values()
    assert (plain.qos, plain.billing, plain.over_s) == ("scavenger", None, None)
    assert (plain.min_nodes, plain.max_nodes, plain.max_cpus) == (0, inf, inf)
    assert not plain.root_only
    changed = line
    for before, after in (
        ("QoS=scavenger", "QoS=N/A"), ("MinNodes=0", "MinNodes=2"), ("MaxNodes=UNLIMITED", "MaxNodes=9"),
        ("MaxCPUsPerNode=UNLIMITED", "MaxCPUsPerNode=8"), ("RootOnly=NO", "RootOnly=YES"),
        ("OverTimeLimit=NONE", "OverTimeLimit=5"), ("ReqResv=NO", "ReqResv=YES"),
    ):  # fmt: skip
        assert before in changed
        changed = changed.replace(before, after)
    (found,) = parse_partition_rules(f"{changed} TRESBillingWeights=CPU=1.0,Mem=0.25G,GRES/gpu=8")[0].values()
    assert (found.qos, found.over_s) == ("", 300.0)
    assert (found.min_nodes, found.max_nodes, found.max_cpus) == (2, 9.0, 8.0)
    assert (found.root_only, found.reserved_only) == (True, True)
    assert found.billing == {"cpu": 1.0, "mem": 0.25, "gres/gpu": 8.0}
    assert parse_billing("(null)") is None


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
