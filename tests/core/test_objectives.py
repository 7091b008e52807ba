from __future__ import annotations

from pathlib import Path

import pytest

from freetrain.core.objectives import worth_per_s
from freetrain.core.trainer import Trainer
from freetrain.errors import InputError

SLOW = Trainer("slow", ((1, 10.0), (2, 18.0)), weight=3.0)
FAST = Trainer("fast", ((1, 1000.0), (2, 1800.0)))


def test_throughput_counts_samples_times_weight() -> None:
    assert worth_per_s(SLOW, "throughput").tolist() == [0.0, 30.0, 54.0]


def test_speedup_is_the_same_for_fast_and_slow_models_of_one_shape() -> None:
    assert worth_per_s(SLOW, "speedup").tolist() == worth_per_s(FAST, "speedup").tolist() == [0.0, 1.0, 1.8]


def test_weighted_is_speedup_times_weight() -> None:
    assert worth_per_s(SLOW, "weighted").tolist() == pytest.approx([0.0, 3.0, 5.4])


def test_fair_completion_counts_a_further_node_for_less_where_there_are_many() -> None:
    assert worth_per_s(SLOW, "fair-completion").tolist() == pytest.approx([0.0, 3.0, 3.0 * 1.8**0.9])


def test_nothing_below_the_minimum_is_worth_anything() -> None:
    trainer = Trainer("a", ((1, 10.0), (4, 40.0)), min_nodes=3)
    assert worth_per_s(trainer, "throughput").tolist() == [0.0, 0.0, 0.0, 30.0, 40.0]


def test_a_curve_that_is_zero_up_to_the_maximum_is_worth_nothing() -> None:
    trainer = Trainer("a", ((4, 0.0), (8, 100.0)), max_nodes=4)
    assert not worth_per_s(trainer, "speedup").any()


@pytest.fixture
def site_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "our_site.py").write_text(
        "def square_root(trainer):\n"
        "    return [nodes ** 0.5 for nodes in range(trainer.most_nodes + 1)]\n"
        "def too_short(trainer):\n"
        "    return [0.0]\n"
        "def broken(trainer):\n"
        "    return 1 / 0\n"
        "constant = 3\n"
    )
    return tmp_path


@pytest.mark.usefixtures("site_module")
def test_a_site_can_name_its_own_objective() -> None:
    assert worth_per_s(FAST, "our_site:square_root").tolist() == pytest.approx([0.0, 1.0, 2**0.5])


@pytest.mark.usefixtures("site_module")
@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("our_site:too_short", "3 finite values"),
        ("our_site:broken", "ZeroDivisionError"),
        ("our_site:constant", "no function"),
        ("our_site:missing", "cannot be imported"),
        ("no_such_module:function", "cannot be imported"),
        ("fastest", "no objective 'fastest'"),
    ],
)
def test_an_objective_that_cannot_be_used_is_told_in_a_sentence(name: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        worth_per_s(FAST, name)
