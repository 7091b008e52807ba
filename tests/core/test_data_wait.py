from __future__ import annotations

import pytest

from freetrain.core.data_wait import DataWait, summed_up


@pytest.mark.parametrize(
    ("said", "asks", "share"),
    [
        (DataWait(0.5, 4), 4, 0.5),
        (DataWait(0.5, 8), 4, 0.75),  # all of a step reads: with half the CPUs it takes twice as long
        (DataWait(0.5, 4), 8, 0.0),
        (DataWait(0.04, 8), 4, 0.04),
        (DataWait(0.5), 4, 0.5),
        (DataWait(7.0, 8), 4, 1.0),
    ],
)
def test_what_it_waits_with_other_cpus_than_it_had(said: DataWait, asks: int, share: float) -> None:
    assert said.share_with(asks) == pytest.approx(share)


WAITED = DataWait(0.5, 4, 1000)


@pytest.mark.parametrize(
    ("said", "known"),
    [
        (DataWait(0.0, 8, 1000), WAITED),  # as it has more CPUs
        (DataWait(0.0, 4, 3000), WAITED),  # as all its data are in memory
        (DataWait(0.2, 8, 1000), DataWait(0.2, 8, 1000)),
        (DataWait(0.0, 4, 1000), DataWait(0.0, 4, 1000)),
        (DataWait(0.0, 2, 1000), DataWait(0.0, 2, 1000)),
        (DataWait(0.0), DataWait(0.0)),
    ],
)
def test_who_waits_no_longer_as_it_has_more_waits_again_with_less(said: DataWait, known: DataWait) -> None:
    assert said.after(WAITED) == known
    assert said.after(None) == said
    assert said.after(DataWait(0.0, 4)) == said


def test_several_statements_with_the_same_cpus_are_averaged_and_the_next_follow_them() -> None:
    assert summed_up([]) is None
    assert summed_up([(DataWait(0.2, 4), 10.0), (DataWait(0.8, 4), 5.0)]) == DataWait(pytest.approx(0.4), 4)
    assert summed_up([(DataWait(0.5, 4), 9.0), (DataWait(0.0, 8), 100.0)]) == DataWait(0.5, 4)
    assert summed_up([(DataWait(0.5, 4), 9.0), (DataWait(0.0, 4), 91.0)]) == DataWait(pytest.approx(0.045), 4)
