from __future__ import annotations

import pytest

from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.node import Partition
from freetrain.slurm.site.facts import Site
from freetrain.slurm.site.harm import Premise
from freetrain.slurm.site.terms import RateLimit, judge_terms, parse_rate_limit
from tests.slurm.site.rows import partition_row

FIFTY = Partition("freetrain", frozenset(f"n{number}" for number in range(50)))


def found(parameters: str, account: str = "freetrain") -> list[tuple[str, str]]:
    conf = {"SlurmUser": "slurm(64030)", "SlurmctldParameters": parameters}
    site = Site(conf, {"freetrain": partition_row(FIFTY)})
    findings = judge_terms(site, Premise(FragmentQueue("freetrain"), account=account))
    assert not any(finding.is_unsafe for finding in findings)
    return [(finding.what, finding.mend) for finding in findings]


@pytest.mark.parametrize(
    ("parameters", "limit"),
    [
        ("", None),
        ("enable_configless,rl_bucket_size=9", None),
        ("rl_enable", RateLimit(30, 2.0)),
        (
            "idle_on_node_suspend,rl_enable,rl_bucket_size=100,rl_refill_rate=5,rl_refill_period=10",
            RateLimit(100, 0.5),
        ),
        ("rl_enable,rl_bucket_size=0", RateLimit(30, 2.0)),
    ],
)
def test_what_the_parameters_say_and_slurms_defaults(parameters: str, limit: RateLimit | None) -> None:
    assert parse_rate_limit(parameters) == limit


def test_a_bucket_that_is_too_small_for_all_nodes_is_named_with_one_that_will_do() -> None:
    ((what, mend),) = found("enable_configless,rl_enable")
    assert "30 times at once, and 2 times a second" in what
    assert "to lend all 50 nodes takes 00:00:40" in what
    assert mend == "SlurmctldParameters=enable_configless,rl_enable,rl_bucket_size=110"


@pytest.mark.parametrize("account", ["root", "slurm"])
def test_root_and_slurm_user_have_no_limit(account: str) -> None:
    assert found("rl_enable", account) == []


def test_a_bucket_that_will_do_is_fine() -> None:
    assert found("rl_enable,rl_bucket_size=110") == []
