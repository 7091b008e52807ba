"""What a site wants maximised, as it writes it."""

from __future__ import annotations

import pytest

from freetrain.core.aim import Aim, read_aim, without
from freetrain.core.objectives import worth_per_s
from freetrain.core.trainer import Trainer
from freetrain.errors import InputError

TRAINER = Trainer("t", ((1, 100.0), (2, 180.0)), weight=3.0)


def test_an_aim_has_an_objective_and_what_is_weighed_besides() -> None:
    assert read_aim("speedup") == Aim("speedup")
    assert read_aim("a.b:c,evictions=60") == Aim("a.b:c", 60.0)
    assert read_aim("weighted,energy=1200,deadlines=3") == Aim("weighted", 0.0, 3.0, 1200.0)


def test_what_is_weighed_besides_changes_nothing_of_what_was_trained() -> None:
    worth = worth_per_s(TRAINER, "weighted,evictions=60,deadlines=3,energy=1200")
    assert worth.tolist() == worth_per_s(TRAINER, "weighted").tolist()


@pytest.mark.parametrize(
    "part",
    [
        *("evictions", "evictions=", "evictions=-1", "evictions=nan", "watts=1", "evictions=0,evictions=0", ""),
        *("deadlines=1001", "energy=inf", "deadlines=1,energy=1,deadlines=1"),
    ],
)
def test_what_cannot_be_weighed_is_told(part: str) -> None:
    with pytest.raises(InputError, match="cannot be"):
        read_aim(f"speedup,{part}")


def test_electricity_counts_by_the_kilowatt_hour_and_by_weight_where_training_does() -> None:
    aim = read_aim("weighted,energy=3600")
    assert aim.per_joule * 1000 * 3600 == pytest.approx(3600.0)
    assert [read_aim(name).scale_of(3.0) for name in ("weighted", "throughput", "speedup", "a:b")] == [3, 3, 1, 1]


def test_a_part_can_be_left_out() -> None:
    assert without("weighted,deadlines=3,energy=5", "deadlines") == "weighted,energy=5"
    assert without("weighted,deadlines=3", "energy") == "weighted,deadlines=3"
