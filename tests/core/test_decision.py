from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from freetrain.core.decision import Allocation, Status

ONE_NODE = np.array([[1]])


def test_an_allocation_claims_nothing_unless_it_says_so() -> None:
    allocation = Allocation(ONE_NODE, "by hand")
    assert allocation.status is Status.HEURISTIC
    assert allocation.bound is None


def test_numbers_of_any_width_and_a_status_by_its_word_will_do() -> None:
    allocation = Allocation(ONE_NODE.astype(np.uint8), "by hand", "optimal", np.float32(0.5))  # type: ignore[arg-type]
    assert type(allocation.bound) is float
    assert allocation.counts.dtype == np.int64
    assert allocation.status is Status.OPTIMAL


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"counts": np.array([[0.5]])}, "counts must be integers, not float64"),
        ({"counts": np.array([[True]])}, "counts must be integers, not bool"),
        ({"counts": {"A": 3}}, "counts must be integers, not object"),
        ({"solver": None}, "solver must be a string"),
        ({"status": "perfect"}, "'perfect' is not a valid Status"),
        ({"bound": float("nan")}, "bound must be a number or None, not nan"),
        ({"bound": "high"}, "must be real number"),
        ({"notes": "one sentence"}, "notes must be a tuple of strings"),
        ({"notes": (1,)}, "notes must be a tuple of strings"),
    ],
)
def test_what_is_not_of_its_kind_is_refused(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises((TypeError, ValueError), match=complaint):
        Allocation(**{"counts": ONE_NODE, "solver": "by hand"} | given)
