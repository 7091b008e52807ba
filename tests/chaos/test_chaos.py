"""Half a minute of chaos, with the same faults each time; ``make chaos`` is longer."""

from __future__ import annotations

import pytest

from tests import needed
from tests.chaos.__main__ import play

pytestmark = [pytest.mark.slurm, pytest.mark.slow]

SECONDS, SEED = 30.0, 1


@needed.several_people
def test_in_half_a_minute_of_faults_nothing_that_must_hold_is_violated() -> None:
    outcome = play("steer", SEED, SECONDS)
    assert outcome.violations == []
    assert outcome.faults.total() >= 12
    assert outcome.looks > outcome.faults.total()
