from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from freetrain.elastic.errors import LostRankError
from freetrain.elastic.worlds.collectives import Collectives
from tests.elastic.harness import printed_by


class LikeNccl:
    """A collective as NCCL's: a wait that times out aborts it, and when it is aborted it looks completed."""

    def __init__(self, questions: int) -> None:
        self.questions = questions  # so often it is asked before it ends
        self.is_aborted = False

    def is_completed(self) -> bool:
        self.questions -= 1
        return self.is_aborted or self.questions < 0

    def wait(self, timeout: timedelta | None = None) -> None:
        if timeout is not None and not self.is_completed():
            self.is_aborted = True
            raise RuntimeError("timed out in blocking wait")


@pytest.mark.parametrize("way", ["state", "gradients", "script"])
def test_nobody_waits_for_a_send_that_gloo_forgot(tmp_path: Path, way: str) -> None:
    """And the process ends in time, although the send never does."""
    facts = json.loads(printed_by("stuck.py", way, in_folder=tmp_path))
    assert facts["forgotten"], "gloo has learned to tell: see whether collectives.py is still needed"
    assert len(facts["lost"]) == 1
    assert facts["left_s"] < 30, "it should take a tenth of a second; gloo alone would wait for days"
    assert facts["alone"] == [2.0]
    gradients_of_a_lost_step = way == "gradients"
    assert (facts["kept"] < 0.01) == gradients_of_a_lost_step, "what the send holds is to be given back"


def test_a_sum_on_gpus_takes_as_long_as_it_takes() -> None:
    waits: list[float] = []
    work = LikeNccl(questions=100)
    Collectives(waits.append, on_gpu=True).finish(work)
    assert len(waits) == 100
    assert not work.is_aborted


def test_values_of_a_sum_that_an_abort_ended_are_not_used() -> None:
    collectives = Collectives(on_gpu=True)
    work = LikeNccl(questions=100)
    work.is_aborted = True
    collectives.cut()
    with pytest.raises(LostRankError, match="under way when its world was cut"):
        collectives.finish(work)


def test_a_sum_on_gpus_that_does_not_end_after_the_cut_is_given_up() -> None:
    collectives = Collectives(on_gpu=True)
    collectives.cut()
    with pytest.raises(LostRankError, match="did not end after its world was cut"):
        collectives.finish(LikeNccl(questions=10**9))
