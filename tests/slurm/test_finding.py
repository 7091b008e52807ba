from __future__ import annotations

from freetrain.slurm.finding import Finding, LineKind, describe, error, warning
from freetrain.slurm.site.changes import partition


def test_each_line_that_mends_goes_where_it_belongs() -> None:
    lines = [
        "sacctmgr -i add qos freetrain",
        "PreemptType=preempt/qos",
        "[lend]",
        'mode = "act"',
        "chmod o-w /etc/freetrain/freetrain.toml",
    ]
    assert [place for place, _ in Finding("Wrong.", "\n".join(lines)).mends] == [
        LineKind.COMMAND,
        LineKind.SLURM_CONF,
        LineKind.FREETRAIN_TOML,
        LineKind.FREETRAIN_TOML,
        LineKind.COMMAND,
    ]


def test_what_scontrol_changes_belongs_into_slurm_conf_too() -> None:
    assert error("Wrong.", partition("freetrain", "GraceTime", "0")).mends == [
        (LineKind.COMMAND, "scontrol update PartitionName=freetrain GraceTime=0"),
        (LineKind.SLURM_CONF, "PartitionName=freetrain … GraceTime=0"),
    ]


def test_a_value_of_several_is_quoted_in_slurm_conf_alone() -> None:
    dear = warning("Dear.", partition("freetrain", "TRESBillingWeights", "CPU=0.0"))
    assert [line for _, line in dear.mends] == [
        "scontrol update PartitionName=freetrain TRESBillingWeights=CPU=0.0",
        'PartitionName=freetrain … TRESBillingWeights="CPU=0.0"',
    ]


def test_findings_are_described_one_below_the_other() -> None:
    assert describe([Finding("Wrong.", "A=1\nB=2"), Finding("Bad.", "C=3")]) == (
        "\n- Wrong.\n    A=1\n    B=2\n- Bad.\n    C=3"
    )
