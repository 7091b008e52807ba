from __future__ import annotations

import threading

import pytest
import torch

from freetrain.elastic.data.loading import Loader


class Squares:
    """Notes which thread asked for what."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, str]] = []

    def __getitem__(self, id_: int) -> int:
        self.asked.append((id_, threading.current_thread().name))
        if id_ < 0:
            raise ValueError(f"no sample {id_}")
        return id_ * id_


def test_the_next_batches_are_fetched_meanwhile_and_once_only() -> None:
    data = Squares()
    loader = Loader(data, threads=1)
    loader.prepare([[1, 2], [3]])
    assert loader.get([1, 2]).tolist() == [1, 4]
    loader.prepare([[3], [4]])
    assert loader.get([3]).tolist() == [9]
    assert loader.get([4]).tolist() == [16]
    loader.close()
    assert [id_ for id_, _ in data.asked] == [1, 2, 3, 4]
    assert all(name.startswith("freetrain-loader") for _, name in data.asked)


class AllAtOnce:
    """Gives nobody anything before so many have asked."""

    def __init__(self, threads: int) -> None:
        self.barrier = threading.Barrier(threads, timeout=120)

    def __getitem__(self, id_: int) -> int:
        self.barrier.wait()
        return id_


def test_all_threads_fetch_parts_of_one_batch_at_once() -> None:
    loader = Loader(AllAtOnce(8), threads=8)
    loader.prepare([list(range(16))])
    assert loader.get(list(range(16))).tolist() == list(range(16))
    loader.close()


def test_what_is_forgotten_is_fetched_no_further() -> None:
    data = Squares()
    loader = Loader(data, threads=1)
    hold = threading.Event()
    loader._pool.submit(hold.wait)
    loader.prepare([[1, 2], [3]])
    loader.prepare([[3]])
    hold.set()
    assert loader.get([3]).tolist() == [9]
    assert [id_ for id_, _ in data.asked] == [3]
    loader.close()


def test_what_was_not_prepared_is_fetched_at_once() -> None:
    data = Squares()
    loader = Loader(data, threads=1)
    loader.prepare([[1]])
    assert loader.get([5]).tolist() == [25]
    assert "MainThread" in {name for id_, name in data.asked if id_ == 5}


def test_without_threads_nothing_is_fetched_ahead() -> None:
    data = Squares()
    loader = Loader(data, threads=0)
    loader.prepare([[1], [2]])
    assert data.asked == []
    assert loader.get([2]).tolist() == [4]


def test_an_error_of_the_data_set_is_raised_where_its_batch_is_asked_for() -> None:
    loader = Loader(Squares(), threads=1)
    loader.prepare([[-1]])
    with pytest.raises(ValueError, match="no sample -1"):
        loader.get([-1])


def test_a_number_of_samples_yields_their_ids() -> None:
    loader = Loader(10)
    loader.prepare([[1, 2], []])
    assert torch.equal(loader.get([1, 2]), torch.tensor([1, 2]))
