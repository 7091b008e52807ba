from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from freetrain.elastic.data.batching import FixedBatch
from freetrain.elastic.data.sampler import Sampler
from freetrain.elastic.data.streaming import Streaming, is_stream
from freetrain.elastic.worlds.world import World


class Plain:
    """The numbers below ten, in order; counts what is read."""

    def __init__(self) -> None:
        self.reads = 0

    def __iter__(self) -> Any:
        for number in range(10):
            self.reads += 1
            yield number


class Stateful(Plain):
    """Goes on where it is told to, once."""

    def __init__(self) -> None:
        super().__init__()
        self.place = self.start = 0

    def __iter__(self) -> Any:
        start, self.start = self.start, 0
        for self.place in range(start + 1, 11):
            self.reads += 1
            yield self.place - 1

    def state_dict(self) -> dict[str, int]:
        return {"place": self.place}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.start = state["place"]


class Rank:
    """One rank's side, in worlds of two."""

    def __init__(self, data: Any, rank: int) -> None:
        self.data = data
        self.sampler = Sampler(1 << 62, 2, shuffle=False, holds_at_end=True)
        self.streaming = Streaming(data, self.sampler, FixedBatch(4))
        self.world = cast(World, SimpleNamespace(rank=rank, size=2))

    def take(self) -> list[int] | None:
        drawn = self.streaming.next(self.world)
        return None if drawn is None else drawn[1].tolist()

    def complete(self) -> None:
        self.sampler.advance(self.streaming.samples)
        self.streaming.forget_step()

    def join(self, other: Rank) -> None:
        self.sampler.load_state_dict(other.sampler.state_dict())
        self.streaming.load_state_dict(other.streaming.state_dict())
        for each in (self, other):
            each.streaming.restart()


@pytest.mark.parametrize("kind", [Plain, Stateful])
def test_each_rank_keeps_its_share_and_a_lost_step_is_read_again(kind: type[Plain]) -> None:
    rank = Rank(kind(), 1)
    assert rank.take() == [2, 3]
    rank.complete()
    assert rank.take() == [6, 7]
    before = rank.streaming.state_dict()  # as it is carried along while the step is under way
    assert rank.take() == [9]
    rank.streaming.forget_step()
    rank.streaming.load_state_dict(before)
    rank.streaming.restart()
    assert rank.take() == [6, 7]
    rank.complete()
    assert rank.take() == [9]
    rank.complete()
    assert rank.take() is None
    rank.sampler.end_epoch()
    rank.streaming.restart()
    assert rank.take() == [2, 3]


@pytest.mark.parametrize(("kind", "reads"), [(Plain, 8), (Stateful, 4)])
def test_who_joins_goes_on_where_the_others_are(kind: type[Plain], reads: int) -> None:
    old, new = Rank(kind(), 0), Rank(kind(), 1)
    old.take()
    old.complete()
    new.join(old)
    assert (old.take(), new.take()) == ([4, 5], [6, 7])
    assert new.data.reads == reads


def test_who_joins_at_the_end_of_an_epoch_finds_nothing_more_in_it() -> None:
    old, new = Rank(Stateful(), 0), Rank(Stateful(), 1)
    while old.take():
        old.complete()
    new.join(old)
    assert (old.take(), new.take()) == (None, None)


def test_what_has_items_is_no_stream() -> None:
    assert is_stream(Plain())
    assert not is_stream([1, 2])
    assert not is_stream(10)
