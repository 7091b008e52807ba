from __future__ import annotations

import pytest

from freetrain.core.throughput import check_curve, rates


def test_a_curve_is_linear_between_its_points_and_from_nothing() -> None:
    assert rates(((2, 10.0), (4, 14.0)), 4).tolist() == [0.0, 5.0, 10.0, 12.0, 14.0]


def test_a_curve_is_flat_beyond_its_last_point() -> None:
    assert rates(((1, 3.0), (2, 5.0)), 4).tolist() == [0.0, 3.0, 5.0, 5.0, 5.0]


def test_an_explicit_origin_changes_nothing() -> None:
    assert rates(((0, 0.0), (2, 8.0)), 2).tolist() == rates(((2, 8.0),), 2).tolist()


def test_shared_tables_cannot_be_written_to() -> None:
    with pytest.raises(ValueError, match="read-only"):
        rates(((1, 1.0),), 1)[0] = 7


@pytest.mark.parametrize(
    ("curve", "complaint"),
    [
        ((), "at least one"),
        (((2, 1.0), (1, 2.0)), "ascending"),
        (((1, 1.0), (1, 2.0)), "ascending"),
        (((1, -1.0),), "negative"),
        (((0, 1.0), (1, 2.0)), "0 nodes is 0"),
        (((1, 1.0), (2, 0.0)), "never get on"),
    ],
)
def test_what_is_no_curve_is_told_in_a_sentence(curve: tuple[tuple[int, float], ...], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        check_curve(curve)
