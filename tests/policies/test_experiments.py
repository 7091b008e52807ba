"""What each system is expected to gain, on small versions of its experiment; docs/systems.md has the full ones."""

from __future__ import annotations

import json
from itertools import product

import pytest
from click.testing import CliRunner

from freetrain.cli.main import cli
from freetrain.policies.dltap import experiment as dltap
from freetrain.policies.experiment import Table
from freetrain.policies.gadget import experiment as gadget
from freetrain.policies.smd import experiment as smd
from freetrain.policies.synergy import experiment as synergy


def shares(table: Table) -> dict[tuple[int, str], float]:
    """(nodes, way) → share of pairs on different nodes."""
    return {(int(row[0]), str(row[1])): float(row[2]) for row in table.rows}


def test_dltap_separates_fewer_pairs_and_leaf_aware_less_than_half() -> None:
    found = shares(dltap.run(seeds=2))
    for nodes in (6, 10, 20):
        assert found[nodes, "DLTAP"] < found[nodes, "default"]
        assert found[nodes, "leaf-aware"] <= 0.5 * found[nodes, "default"]
        assert found[nodes, "leaf-aware"] <= found[nodes, "no spreading, DLTAP"]
        assert found[nodes, "DLTAP"] < found[nodes, "DLTAP, servers first"]


@pytest.mark.slow
def test_gadget_gains_utility_over_every_rule() -> None:
    for row in gadget.run(seeds=1).rows:
        assert float(str(row[-1]).split()[0]) >= 1.05, row


def test_smd_gains_over_optimus_and_its_menu_over_all() -> None:
    rows = {(row[0], row[1]): float(row[2]) for row in smd.run(seeds=2).rows}
    for machine in ("x1", "x2"):
        assert rows[machine, "SMD"] > rows[machine, "Optimus"]
        assert rows[machine, "smd-menu"] > rows[machine, "SMD"]
        assert rows[machine, "smd-menu"] > rows[machine, "ESW"]
        assert rows[machine, "SMD, slack"] > rows[machine, "SMD"]
        assert rows[machine, "SMD, grid"] == pytest.approx(rows[machine, "SMD"], rel=0.05)


def test_where_trainings_take_all_that_they_may_the_two_steps_of_smd_are_exact_and_never_worse_than_esw() -> None:
    for seed, times in product(range(6), (1, 2)):
        found = smd.utilities(seed, times, only=("SMD, by limits", "ESW, by limits"))
        assert found["SMD, by limits"] >= found["ESW, by limits"] * (1 - 1e-6), (seed, times)


def test_no_choice_is_worth_more_than_the_menu_that_contains_it() -> None:
    for seed in range(2):
        found = smd.utilities(seed, 1)
        assert found["smd-menu"] == max(found.values()), seed


def test_tuned_trainings_are_never_slower_than_with_their_share() -> None:
    runs = synergy.arrivals(0, (20, 70, 10), True, 8.0)
    for first in range(0, 300, 100):
        jobs = [run.job for run in runs[first : first + 150]]
        tuned = synergy.WAYS["TUNE"](jobs)
        assert min(tuned.values()) >= 1.0
        assert tuned.keys() == synergy.WAYS["proportional"](jobs).keys()


@pytest.mark.slow
def test_trainings_are_done_sooner_with_tune_than_with_shares_and_later_where_all_is_given_or_nothing() -> None:
    mean_h = {
        name: synergy.mean_hours(synergy.arrivals(0, (50, 0, 50), False, 11.0), "FIFO", way, slice(400, 600))
        for name, way in synergy.WAYS.items()
    }
    assert mean_h["TUNE"] < mean_h["proportional"] < mean_h["greedy"]


def test_the_command_prints_a_table_and_its_notes() -> None:
    shown = CliRunner().invoke(cli, ["bench", "dltap", "--seeds", "1"])
    assert "leaf-aware is freetrain's" in shown.stdout
    document = json.loads(CliRunner().invoke(cli, ["bench", "dltap", "--seeds", "1", "--json"]).stdout)
    assert document["format"] == "freetrain-bench/1"
    assert len(document["rows"]) == 24
    assert CliRunner().invoke(cli, ["bench", "freetrain"]).exit_code == 2
