from __future__ import annotations

import math

from freetrain.elastic.membership.watcher import StragglerDetector, WorkerProgress


def at(started: int, waited_s: float = 0.0, generation: int = 1) -> WorkerProgress:
    return WorkerProgress(generation, started, int(1000 * waited_s))


def test_a_worker_that_others_wait_for_too_long_is_hung() -> None:
    waiting = StragglerDetector(hung_after_s=10.0)
    looks = [waiting.look({"a": at(7), "b": at(7), "c": at(5)}, 1, float(now_s)) for now_s in range(13)]
    assert [dict(found.hung_s) for found in looks[:11]] == [{}] * 11
    assert dict(looks[11].hung_s) == {"c": 11.0}


def test_a_worker_that_is_behind_and_moves_is_not_hung() -> None:
    waiting = StragglerDetector(hung_after_s=10.0)
    for now_s in range(0, 60, 6):
        assert not waiting.look({"a": at(now_s + 2), "b": at(now_s)}, 1, float(now_s)).hung_s


def test_where_all_are_at_the_same_point_nobody_is_to_blame() -> None:
    waiting = StragglerDetector(hung_after_s=10.0)
    assert not any(waiting.look({"a": at(7), "b": at(7)}, 1, float(now_s)).hung_s for now_s in range(60))


def test_who_has_not_entered_the_world_is_not_behind() -> None:
    waiting = StragglerDetector(hung_after_s=10.0)
    for now_s in range(60):
        assert not waiting.look({"a": at(7, generation=2), "b": at(5, generation=1)}, 2, float(now_s)).hung_s


def test_in_a_new_world_waiting_begins_anew() -> None:
    waiting = StragglerDetector(hung_after_s=10.0)
    waiting.look({"a": at(7), "b": at(5)}, 1, 0.0)
    waiting.look({"a": at(7, generation=2), "b": at(5, generation=2)}, 2, 9.0)
    assert not waiting.look({"a": at(7, generation=2), "b": at(5, generation=2)}, 2, 18.0).hung_s


def test_by_default_nobody_is_given_up_for_that() -> None:
    waiting = StragglerDetector(hung_after_s=math.inf)
    assert not any(waiting.look({"a": at(7), "b": at(5)}, 1, 1000.0 * now_s).hung_s for now_s in range(9))


def test_a_worker_for_which_the_others_wait_a_part_of_the_time_is_told_once_a_minute() -> None:
    waiting = StragglerDetector(hung_after_s=10.0)
    told = []
    for now_s in range(130):
        members = {"a": at(now_s, 0.3 * now_s), "b": at(now_s, 0.01 * now_s), "c": at(now_s, 0.32 * now_s)}
        told.append(dict(waiting.look(members, 1, float(now_s)).slow))
    assert [now_s for now_s, slow in enumerate(told) if slow] == [60, 120]
    assert list(told[60]) == ["b"]
    assert 0.28 < told[60]["b"] < 0.30


def test_workers_that_wait_alike_are_not_slow() -> None:
    waiting = StragglerDetector(hung_after_s=10.0)
    for now_s in range(200):
        assert not waiting.look({"a": at(now_s, 0.3 * now_s), "b": at(now_s, 0.25 * now_s)}, 1, float(now_s)).slow


def test_where_nobody_is_in_the_world_for_minutes_nobody_is_slow() -> None:
    waiting = StragglerDetector(hung_after_s=10.0)
    assert not any(waiting.look({"a": at(7, generation=1)}, 2, float(now_s)).slow for now_s in range(130))


def test_signs_of_life_tell_it_and_all_are_of_one_length() -> None:
    beats = [f"{7:20d} {progress}" for progress in (WorkerProgress(), WorkerProgress(12, 3_000_000_000, 10**9))]
    assert [WorkerProgress.of(beat) for beat in beats] == [
        WorkerProgress(),
        WorkerProgress(12, 3_000_000_000, 10**9),
    ]
    assert len({len(beat) for beat in beats}) == 1
    assert WorkerProgress.of(f"{7:20d}") == WorkerProgress.of("") == WorkerProgress()
