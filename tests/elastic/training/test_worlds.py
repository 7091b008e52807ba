"""What the script exchanges between steps comes about exactly once, whoever is lost or joins meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest
import torch

from freetrain.elastic.data.batching import Sampler
from freetrain.elastic.training import worlds as module_of_worlds
from freetrain.elastic.training.state import TrainingState
from freetrain.elastic.training.worlds import Worlds
from freetrain.elastic.worlds.calls import Call, PendingCalls
from freetrain.elastic.worlds.world import World


class Table:
    """Where the ranks of a world meet, each in a thread of its own."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._places: list[Any] = [None] * size
        self._barrier = threading.Barrier(size, timeout=120)

    def pass_round(self, rank: int, value: Any) -> list[Any]:
        self._places[rank] = value
        self._barrier.wait()
        seen = list(self._places)
        self._barrier.wait()
        return seen


class Seat:
    """A world as one of its ranks has it."""

    def __init__(self, table: Table, rank: int) -> None:
        self.rank, self.size, self._table = rank, table.size, table
        self.replica, self.shards, self.peers = rank, 1, self

    def ask(self, what: str, size: int = 0) -> PendingCalls:
        rows = self._table.pass_round(self.rank, Call(what, size=size).pack())
        return PendingCalls(1, self.rank, lambda: rows, lambda _rank, _how: None)

    def gather(self, values: list[int]) -> list[list[int]]:
        return self._table.pass_round(self.rank, list(values))

    def start_gather(self, mine: torch.Tensor) -> Callable[[], list[torch.Tensor]]:
        rows = self._table.pass_round(self.rank, mine.clone())
        return lambda: rows

    def broadcast(self, tensor: torch.Tensor, source: int) -> None:
        tensor.copy_(self._table.pass_round(self.rank, tensor.clone())[source])


def worlds_of(step: int, exchanges: int, last: list[bytes]) -> Worlds:
    """One rank's side; step -1 is a newcomer."""
    module = torch.nn.Linear(1, 1)
    state = TrainingState(module, [torch.optim.SGD(module.parameters(), 0.1)], Sampler(8, 1), {})
    state.step, state.exchanges = max(step, 0), exchanges
    worlds = Worlds(state, lambda _: None, cast(Any, None), cast(Any, None))
    worlds.has_state, worlds._last_results = step >= 0, last
    return worlds


class NoRecords:
    def resume(self) -> None:
        pass


def test_what_a_worlds_first_steps_have_freed_is_given_back_once(monkeypatch: pytest.MonkeyPatch) -> None:
    given_back: list[int] = []
    worlds = worlds_of(0, 0, [])
    worlds._records = cast(Any, NoRecords())
    for step in range(1, 8):
        monkeypatch.setattr(module_of_worlds, "give_back_memory", lambda step=step: given_back.append(step))
        worlds.step_done()
    assert given_back == [3]


def at_once(*parts: Callable[[World], Any]) -> list[Any]:
    """What each rank's part comes to."""
    table = Table(len(parts))
    with ThreadPoolExecutor(len(parts)) as threads:
        futures = [threads.submit(part, cast(World, Seat(table, rank))) for rank, part in enumerate(parts)]
        return [future.result() for future in futures]


def test_a_newcomer_waits_while_the_others_exchange_and_joins_at_their_next_step() -> None:
    newcomer, first, second = worlds_of(-1, 0, []), worlds_of(5, 2, []), worlds_of(5, 2, [])

    def exchanges_twice(mine: Worlds, content: bytes, world: World) -> list[list[bytes]]:
        results = [mine.exchange(content, world)[0] for _ in range(2)]
        mine._state.step = 6  # as nobody may have been told before
        mine.settle(world)
        return results

    _, *found = at_once(
        newcomer.settle,
        lambda world: exchanges_twice(first, b"first", world),
        lambda world: exchanges_twice(second, b"second", world),
    )
    assert found == [[[b"", b"first", b"second"]] * 2] * 2
    assert newcomer.has_state
    assert (newcomer._state.step, newcomer._state.exchanges) == (6, 4)


def test_who_was_cut_off_gets_the_results_that_another_has_already() -> None:
    has, lacks, newcomer = worlds_of(5, 3, [b"a", b"b", b"lost"]), worlds_of(5, 2, []), worlds_of(-1, 0, [])

    def gets_it_and_goes_on(world: World) -> list[bytes]:
        results, _ = lacks.exchange(b"b", world)
        lacks.settle(world)
        return results

    _, results, _ = at_once(has.settle, gets_it_and_goes_on, newcomer.settle)
    assert results == [b"a", b"b", b"lost"]
    assert newcomer._state.exchanges == lacks._state.exchanges == 3


def test_one_is_in_the_exchange_after_that_which_the_other_has_not_completed() -> None:
    ahead, behind = worlds_of(5, 3, [b"old", b"older"]), worlds_of(5, 2, [])

    def twice(world: World) -> list[list[bytes]]:
        results = [behind.exchange(content, world)[0] for content in (b"older", b"new")]
        behind.settle(world)
        return results

    def once(world: World) -> list[bytes]:
        results, _ = ahead.exchange(b"newer", world)
        ahead.settle(world)
        return results

    assert at_once(once, twice) == [[b"newer", b"new"], [[b"old", b"older"], [b"newer", b"new"]]]
