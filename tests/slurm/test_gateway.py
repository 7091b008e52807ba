from __future__ import annotations

import pytest

from freetrain.slurm import commands
from freetrain.slurm.commands import Command
from freetrain.slurm.errors import SlurmBusyError, SlurmRefusedError
from tests.daemon.fake_slurm import FakeSlurm

ORDER = commands.release("1_0")


def busy_for(slurm: FakeSlurm, times: int, then: Exception | None = None) -> FakeSlurm:
    """A Slurm that is busy so often, and then answers."""

    def perform(command: Command, stdin: str = "") -> str:
        slurm.told.append(command)
        if len(slurm.told) <= times:
            raise SlurmBusyError("try again later")
        if then is not None:
            raise then
        return "done"

    slurm.perform = perform  # type: ignore[method-assign]
    return slurm


def test_a_busy_slurm_is_told_again_after_longer_and_longer_pauses() -> None:
    pauses: list[float] = []
    assert busy_for(FakeSlurm(), 3).perform_patiently(ORDER, sleep=pauses.append) == "done"
    assert pauses == sorted(pauses)
    assert len(pauses) == 3


def test_one_that_stays_busy_is_left_alone_in_the_end() -> None:
    slurm = busy_for(FakeSlurm(), 99)
    with pytest.raises(SlurmBusyError):
        slurm.perform_patiently(ORDER, sleep=lambda _: None)
    assert slurm.told == [ORDER] * 4


def test_a_refusal_is_final() -> None:
    slurm = busy_for(FakeSlurm(), 1, SlurmRefusedError("no"))
    with pytest.raises(SlurmRefusedError):
        slurm.perform_patiently(ORDER, sleep=lambda _: None)
    assert len(slurm.told) == 2
