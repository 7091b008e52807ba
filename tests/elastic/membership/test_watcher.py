"""A member that waits in a world which another one has given up is got out of it."""

from __future__ import annotations

import time
from pathlib import Path

from freetrain.elastic.membership.identity import this_member
from freetrain.elastic.membership.watcher import Guard, Watcher
from freetrain.elastic.on_disk.directory import TrainerDirectory
from freetrain.elastic.on_disk.members import Generation
from freetrain.elastic.on_disk.next_generation import Proposal
from freetrain.elastic.timeouts import Timeouts


def generation(number: int, *members: str) -> Generation:
    return Generation(number, members, "host", "address", 1, "", "broken")


def published_by_another(proposal: Proposal) -> Generation:
    return generation(proposal.number, *proposal.members)


def watches(directory: TrainerDirectory, *, in_generation: int) -> list[str]:
    """What a member in the world of this generation does about it within some looks."""
    member = this_member("mark", "2.13")
    directory.join(member)
    for number in (1, 2, 3):
        directory.publish(generation(number, member.id))
    watcher = Watcher(directory, member, Timeouts(cut_after_s=0.02), published_by_another, lambda _: None)
    cuts: list[str] = []
    guard = Guard(generation(in_generation, member.id), lambda: cuts.append("cut"))
    guard.formed = True
    watcher.guard(guard)
    for _ in range(5):
        watcher._look(silence_too=False)
        time.sleep(0.01)
    return cuts


def test_a_world_that_broke_is_cut_although_newer_generations_have_come_already(tmp_path: Path) -> None:
    directory = TrainerDirectory.open(tmp_path)
    directory.report_broken(1, "nobody is missing")
    assert watches(directory, in_generation=1)


def test_a_world_that_holds_is_left_to_itself_while_newer_generations_wait(tmp_path: Path) -> None:
    directory = TrainerDirectory.open(tmp_path)
    directory.report_broken(1, "nobody is missing")
    assert not watches(directory, in_generation=2)
