"""A member that waits in a world which another one has given up is got out of it."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from freetrain.elastic.membership.identity import this_member
from freetrain.elastic.membership.session import Session
from freetrain.elastic.membership.watcher import Watcher
from freetrain.elastic.on_disk.directory import TrainerDirectory
from freetrain.elastic.on_disk.members import Generation
from freetrain.elastic.on_disk.next_generation import Proposal, View
from freetrain.elastic.timeouts import Timeouts
from freetrain.elastic.worlds.world import World


def generation(number: int, *members: str) -> Generation:
    return Generation(number, members, "host", "address", 1, "", "broken")


def published_by_another(proposal: Proposal) -> Generation:
    return generation(proposal.number, *proposal.members)


def watches(directory: TrainerDirectory, *, in_generation: int, connects_gpus: bool = False) -> list[str]:
    """What a member in the world of this generation does about it within some looks."""
    member = this_member("mark", "2.13")
    directory.join(member)
    for number in (1, 2, 3):
        directory.publish(generation(number, member.id))
    watcher = Watcher(directory, member, Timeouts(cut_after_s=0.02), published_by_another, lambda _: None)
    cuts: list[str] = []
    world = SimpleNamespace(
        generation=generation(in_generation, member.id),
        is_formed=True,
        broken_since_s=None,
        connects_gpus=connects_gpus,
        cut=lambda: cuts.append("cut"),
    )
    watcher.guard(cast(World, world))
    for _ in range(5):
        watcher._look(silence_too=False)
        time.sleep(0.01)
    return cuts


def test_a_world_that_broke_is_cut_although_newer_generations_have_come_already(tmp_path: Path) -> None:
    directory = TrainerDirectory.open(tmp_path)
    directory.report_broken(1, "nobody is missing")
    assert watches(directory, in_generation=1)


@pytest.mark.parametrize("connects_gpus", [True, False])
def test_a_worker_ends_that_does_not_come_out_of_nccl_after_a_rank_was_lost(
    connects_gpus: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int] = []
    monkeypatch.setattr("freetrain.elastic.membership.watcher.end_at_once", ended.append)
    monkeypatch.setattr("freetrain.elastic.membership.watcher._STUCK_S", 0.03)
    directory = TrainerDirectory.open(tmp_path)
    directory.report_broken(1, "nobody is missing")
    cuts = watches(directory, in_generation=1, connects_gpus=connects_gpus)
    assert set(ended) == ({75} if connects_gpus else set())
    assert len(cuts) > len(ended), "it is cut before"


def test_a_world_that_holds_is_left_to_itself_while_newer_generations_wait(tmp_path: Path) -> None:
    directory = TrainerDirectory.open(tmp_path)
    directory.report_broken(1, "nobody is missing")
    assert not watches(directory, in_generation=2)


class SlowDirectory(TrainerDirectory):
    """One whose server takes long over each look, so that a watcher rests for long in between."""

    def view(self) -> View:
        time.sleep(0.5)
        return super().view()


def test_who_waits_for_the_next_world_does_not_wait_for_the_watcher_to_look_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    directory = SlowDirectory.open(tmp_path)
    session = Session(directory, Timeouts(beat_s=60.0, min_members=2), "gloo", "mark")
    session.join()
    try:
        assert session.wait_for(lambda view: session.member.id in view.members, 60)
        begun_s = time.monotonic()
        directory.publish(generation(1, session.member.id))
        assert session._await_generation(tried=0).number == 1
        assert time.monotonic() - begun_s < 5.0  # it rests for ten seconds after each look
    finally:
        session._watcher.stop()
