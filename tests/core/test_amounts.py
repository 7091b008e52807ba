from __future__ import annotations

import pytest

from freetrain.core.amounts import Amount, Gres, left_of, times_in

NODE = Amount(64, 1000, (("gpu:a100", 4), ("gpu:h100", 2), ("nvme", 1)))


@pytest.mark.parametrize(
    ("gres", "left"),
    [
        ((("gpu:a100", 4),), (("gpu:h100", 2), ("nvme", 1))),
        ((("gpu", 1),), (("gpu:a100", 3), ("gpu:h100", 2), ("nvme", 1))),
        ((("gpu", 1), ("gpu:a100", 4)), (("gpu:h100", 1), ("nvme", 1))),
        ((("gpu:1g.5gb", 1),), None),
        ((("gpu:h100", 3),), None),
        ((("gpu", 6), ("nvme", 1)), ()),
    ],
)
def test_what_is_left_of_generic_resources(gres: Gres, left: Gres | None) -> None:
    found = left_of(NODE, Amount(1, 0, gres))
    assert (None if found is None else found.gres) == left


def test_there_must_be_enough_of_everything() -> None:
    assert Amount(64, 1000).fits(NODE)
    assert not Amount(65, 0).fits(NODE)
    assert not Amount(1, 1001).fits(NODE)
    assert not Amount(1, 0, (("gpu", 7),)).fits(NODE)


def test_what_is_used_is_taken_off_however_it_is_named() -> None:
    untyped, typed = Amount(8, 0, (("gpu", 8),)), Amount(8, 0, (("gpu:a100", 8),))
    for total in (untyped, typed):
        for used in (Amount(9, 5, (("gpu", 2),)), Amount(9, 5, (("gpu:a100", 2),))):
            left = total.without(used)
            assert (left.cpus, left.memory_mb, left.gpus) == (0, 0, 6)


def test_how_often_something_fits_is_what_fits_of_its_scarcest_part() -> None:
    assert times_in(NODE, Amount(4, 100, (("gpu", 1),))) == 6
    assert times_in(NODE, Amount(4, 300, (("gpu", 1),))) == 3
    assert times_in(NODE, Amount(20, 0)) == 3
    assert times_in(NODE, Amount(1, 0)) == 64


def test_a_part_counts_as_its_largest_share_of_a_node() -> None:
    node = Amount(64, 1000, (("gpu:a100", 8),))
    assert Amount(8, 100, (("gpu", 2),)).part_of(node) == 0.25
    assert Amount(48, 100, (("gpu", 2),)).part_of(node) == 0.75
    assert node.part_of(node) == 1.0
