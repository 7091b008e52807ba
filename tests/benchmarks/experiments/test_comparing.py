"""The experiments of the other systems: how they compare, and what holds of every seed."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from itertools import product
from statistics import mean

import pytest
from click.testing import CliRunner

from benchmarks.experiments import dltap, gadget, smd, synergy
from benchmarks.experiments.__main__ import main
from benchmarks.experiments.comparing import COLUMNS, Experiment, MethodFigures, interval


def test_an_interval_is_students() -> None:
    """Of 20 values t is 2.093, of 10 it is 2.262, and of two 12.706."""
    for count, t in ((20, 2.093), (10, 2.262), (2, 12.706)):
        values = [float(number % 2) for number in range(count)]
        half = t * (0.25 * count / (count - 1)) ** 0.5 / count**0.5
        assert interval(values) == (0.5, pytest.approx(half, rel=2e-3))


def test_an_interval_contains_the_truth_as_often_as_it_says() -> None:
    draw, inside = random.Random(1), 0
    for _ in range(400):
        found, half = interval([draw.gauss(1.0, 0.3) for _ in range(20)])
        inside += abs(found - 1.0) <= half
    assert 0.92 <= inside / 400 <= 0.98


@pytest.mark.parametrize(
    ("of_method", "less_is_better", "verdict"),
    [
        ((1.1, 1.2, 1.15), False, "better"),
        ((1.1, 1.2, 1.15), True, "worse"),
        ((0.9, 0.8, 0.85), True, "better"),
        ((0.9, 1.2, 0.95), False, "no difference seen"),
        ((1.5,), False, "no difference seen"),
    ],
)
def test_there_is_no_verdict_within_the_interval(
    of_method: tuple[float, ...], less_is_better: bool, verdict: str
) -> None:
    experiment = Experiment("Any", lambda seed: (), (("ours", "theirs"),), (), less_is_better)
    by_seed = [(MethodFigures("here", "work", {"ours": figure, "theirs": 1.0}),) for figure in of_method]
    (row,) = experiment.table(by_seed).rows
    assert row[6] == pytest.approx(mean(of_method), abs=1e-3)
    assert row[-1] == verdict


def test_dltap_separates_fewer_pairs_than_kubernetes_and_packing_still_fewer() -> None:
    document = json.loads(CliRunner().invoke(main, ["dltap", "--seeds", "2", "--json"]).stdout)
    assert document["columns"] == list(COLUMNS)
    assert len(document["rows"]) == 20
    ratios = {(row[0], row[2], row[3]): row[6] for row in document["rows"]}
    for nodes in ("6 nodes", "10 nodes", "20 nodes"):
        assert ratios[nodes, "DLTAP", "Kubernetes"] < 1
        assert ratios[nodes, "no spreading, DLTAP", "no spreading"] < 1
        assert ratios[nodes, "DLTAP", "packing"] > 1


@pytest.mark.slow
def test_gadget_gains_utility_over_every_rule_and_over_elastic_shares() -> None:
    gains = [
        row
        for row in gadget.EXPERIMENT.table([tuple(gadget.EXPERIMENT.run(seed)) for seed in range(2)]).rows
        if row[1] == "utility"
    ]
    assert len(gains) == 3 * 2 * 5
    assert all(row[6] >= 1.0 for row in gains)


def test_smd_gains_over_optimus_and_its_menu_over_all() -> None:
    for seed, times in product(range(2), (1, 2)):
        found = smd.utilities(seed, times)
        assert found["SMD, grid"] == pytest.approx(found["SMD"], rel=0.05)
        assert found["menu"] >= max(found.values()) * (1 - 1e-9), (seed, times)
        assert found["elastic"] >= 0.9 * found["menu"]


def test_where_trainings_take_all_that_they_may_the_two_steps_of_smd_are_exact_and_never_worse_than_esw() -> None:
    for seed, times in product(range(6), (1, 2)):
        found = smd.utilities(seed, times, only=("SMD, by limits", "ESW, by limits"))
        assert found["SMD, by limits"] >= found["ESW, by limits"] * (1 - 1e-6), (seed, times)


def test_nobody_is_slower_than_with_its_share_but_where_all_is_given_or_nothing() -> None:
    runs = synergy.arrivals(0, (20, 70, 10), True, 8.0)
    for first in range(0, 300, 100):
        jobs = [run.job for run in runs[first : first + 150]]
        shares = synergy.WAYS["shares"](jobs)
        for way in ("TUNE", "shares, then the rest"):
            rates = synergy.WAYS[way](jobs)
            assert min(rates.values()) >= 1.0
            assert rates.keys() == shares.keys()


@pytest.mark.slow
def test_trainings_are_done_sooner_with_tune_than_with_shares_and_later_where_all_is_given_or_nothing() -> None:
    hours = {
        name: synergy.mean_hours(synergy.arrivals(0, (50, 0, 50), False, 11.0), "FIFO", way, slice(400, 600))
        for name, way in synergy.WAYS.items()
    }
    assert hours["TUNE"] < hours["shares, then the rest"] <= hours["shares"] < hours["all or nothing"]


def test_the_command_prints_a_table_and_its_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = [MethodFigures("here", "work", {"DLTAP": 2.0, "packing": 1.0, "alone": 1.0})]
    monkeypatch.setattr(dltap, "EXPERIMENT", replace(dltap.EXPERIMENT, run=lambda seed: figures))
    shown = CliRunner().invoke(main, ["dltap", "--seeds", "1"])
    assert "here" in shown.stdout
    assert "alone" not in shown.stdout
    assert "leaf-aware is freetrain's" in shown.stdout
    assert CliRunner().invoke(main, ["freetrain"]).exit_code == 2


def test_ctrl_c_prints_the_table_of_the_seeds_that_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(seed: int) -> list[MethodFigures]:
        if seed == 3:
            raise KeyboardInterrupt
        return [MethodFigures("here", "work", {"ours": 1.0 + seed, "theirs": 1.0})]

    monkeypatch.setattr(dltap, "EXPERIMENT", Experiment("Interrupted", run, (("ours", "theirs"),), ()))
    document = json.loads(CliRunner().invoke(main, ["dltap", "--json"]).stdout)
    assert document["rows"][0][4] == 2.0
    assert " 3 seeds; " in document["notes"][0]
