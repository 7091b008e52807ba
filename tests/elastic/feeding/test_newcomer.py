"""Newcomers that get the state while the others train on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.elastic.harness import Workers, workers

pytestmark = pytest.mark.slow


@pytest.fixture
def trainer(tmp_path: Path):
    with workers(tmp_path, "growing.py", FREETRAIN_FEED_FROM_MB="0") as trainer:
        yield trainer


def start_two(trainer: Workers) -> None:
    trainer.start(2, FREETRAIN_MIN_MEMBERS="2")
    trainer.await_world(2)


def train_with_a_third(trainer: Workers) -> None:
    """Two train, a third one joins them, and all end well."""
    start_two(trainer)
    trainer.start(1)
    trainer.await_world(3)
    assert set(end(trainer).values()) == {0}, trainer.errors()


def end(trainer: Workers) -> dict[str, int]:
    (trainer.out / "done").touch()
    return trainer.finish()


def hang(trainer: Workers, name: str) -> None:
    (trainer.out / f"hang-{name}").touch()


def go_on(trainer: Workers, name: str) -> None:
    (trainer.out / f"hang-{name}").unlink()


def await_message(trainer: Workers, name: str, kind: str) -> None:
    """Wait until this newcomer has taken in a message of this kind."""
    trainer.wait_until((trainer.out / f"took-{name}-{kind}").exists, f"{kind} for {name}")


def feed_third(trainer: Workers, kind: str = "state") -> None:
    """Two train, and a newcomer has taken in a message of this kind and hangs."""
    start_two(trainer)
    hang(trainer, f"w2-{kind}")
    trainer.start(1)
    await_message(trainer, "w2", kind)


def source_of(trainer: Workers, name: str, attempt: int = 0) -> str:
    offer = trainer.directory.feed_offer(name, attempt)
    assert offer is not None
    return str(offer["source"])


def assert_all_alike(trainer: Workers) -> None:
    """After each step all ranks of a world have the same parameters, state of the optimizer and rates."""
    found: dict[tuple[int, int], tuple[str, list[float]]] = {}
    for record in trainer.records():
        known = (record["digest"], record["rate"])
        assert found.setdefault((record["generation"], record["step"]), known) == known, f"step {record['step']}"


def broadcasts(trainer: Workers, name: str) -> int:
    return int(trainer.records(name)[-1]["broadcasts"])


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "fused", "rprop"])
def test_has_the_same_state_bit_by_bit_without_any_broadcast(trainer: Workers, optimizer: str) -> None:
    trainer.environment["OPTIMIZER"] = optimizer
    train_with_a_third(trainer)
    assert broadcasts(trainer, "w2") == 0
    assert {broadcasts(trainer, name) for name in ("w0", "w1")} == {1}, "that of the start"
    assert_all_alike(trainer)


def test_takes_over_alone_what_it_has_been_fed_with(trainer: Workers) -> None:
    start_two(trainer)
    trainer.start(1)
    trainer.await_world(3)
    trainer.kill("w0", "w1")
    trainer.await_world(1)
    assert end(trainer)["w2"] == 0, trainer.errors()
    steps = [record["step"] for record in trainer.records("w2")]
    assert steps[0] > 3
    assert steps == list(range(steps[0], steps[-1] + 1))
    assert_all_alike(trainer)


def test_may_be_on_another_machine(trainer: Workers) -> None:
    trainer.environment["ELSEWHERE"] = "1"
    train_with_a_third(trainer)
    assert broadcasts(trainer, "w2") == 0
    assert_all_alike(trainer)


def test_two_at_once_have_sources_of_their_own(trainer: Workers) -> None:
    feed_third(trainer)
    trainer.start(1)
    trainer.wait_until(lambda: trainer.directory.feed_offer("w3", 0) is not None, "choice of a source")
    assert {source_of(trainer, name) for name in ("w2", "w3")} == {"w0", "w1"}
    go_on(trainer, "w2-state")
    trainer.await_world(4)
    assert set(end(trainer).values()) == {0}, trainer.errors()
    assert {broadcasts(trainer, name) for name in ("w2", "w3")} == {0}
    assert_all_alike(trainer)


def test_the_others_train_on_while_it_is_fed(trainer: Workers) -> None:
    start_two(trainer)
    trainer.start(1)
    trainer.await_world(3)
    end(trainer)
    first = trainer.records("w2")[0]["step"]
    begun = [record["step"] for record in trainer.records("w0") if record["world"] == 2]
    assert begun == list(range(1, first))
    assert len(begun) > 5, "a parameter in each step"


def test_a_script_that_keeps_its_loop_feeds_it_with_each_optimizers_updates(trainer: Workers) -> None:
    trainer.environment["LOOP"] = "1"
    train_with_a_third(trainer)
    assert broadcasts(trainer, "w2") == 0
    assert {broadcasts(trainer, name) for name in ("w0", "w1")} == {1}, "that of the start"
    assert_all_alike(trainer)


@pytest.mark.parametrize("updates", [0, 1])
def test_somebody_else_is_lost_before_or_between_two_updates_when_it_has_all(
    trainer: Workers, updates: int
) -> None:
    """It has made the first of them, too, and has not seen what the script did at the beginning of the step."""
    trainer.environment |= {"LOOP": "1", "PART_BYTES": str(1 << 20)}
    trainer.start(1, FREETRAIN_MIN_MEMBERS="2", DIES=f"w0:{updates}")
    # It is the first rank then, and the other one feeds the newcomer.
    trainer.wait_until(lambda: "w0" in trainer.directory.view().members, "first member")
    trainer.start(1, FREETRAIN_MIN_MEMBERS="2")
    trainer.await_world(2)
    trainer.start(1)
    assert trainer.finish("w0") == {"w0": -9}
    trainer.wait_until(lambda: trainer.records("w2") != [], "step of the newcomer")
    end(trainer)
    assert broadcasts(trainer, "w2") == 0
    assert_all_alike(trainer)
    begun = {record["step"]: record["begun"] for record in trainer.records("w1")}
    last = trainer.records("w2")[-1]
    assert last["begun"] == begun[last["step"]]


@pytest.mark.parametrize("kind", ["state", "update"])
def test_is_lost_while_it_is_fed(trainer: Workers, kind: str) -> None:
    feed_third(trainer, kind)
    trainer.kill("w2")
    trainer.await_world(2)
    trainer.start(1)
    trainer.await_world(3)
    end(trainer)
    assert broadcasts(trainer, "w3") == 0
    assert_all_alike(trainer)


def test_is_stopped_while_it_is_fed(trainer: Workers) -> None:
    trainer.environment["FREETRAIN_LOST_AFTER_S"] = "3"
    feed_third(trainer)
    trainer.stop("w2")
    trainer.wait_until(lambda: "w2" in trainer.directory.view().gone, "end of patience")
    trainer.await_world(2)
    (trainer.out / "done").touch()
    assert trainer.finish("w0", "w1") == {"w0": 0, "w1": 0}, trainer.errors()
    assert_all_alike(trainer)


def test_its_source_is_lost_while_it_is_fed(trainer: Workers) -> None:
    feed_third(trainer)
    source = source_of(trainer, "w2")
    trainer.kill(source)
    go_on(trainer, "w2-state")
    trainer.await_world(2)
    trainer.wait_until(lambda: trainer.records("w2") != [], "step of the newcomer")
    end(trainer)
    assert source_of(trainer, "w2", 1) != source
    assert broadcasts(trainer, "w2") == 0
    assert_all_alike(trainer)


def test_its_source_leaves_while_it_is_fed(trainer: Workers) -> None:
    feed_third(trainer)
    source = source_of(trainer, "w2")
    trainer.leave(source)
    # It leaves at the end of the step in which it waits for the newcomer now.
    trainer.wait_until(lambda: source not in trainer.ranks(), "world without it")
    go_on(trainer, "w2-state")
    assert trainer.finish(source)[source] == 0
    trainer.await_world(2)
    end(trainer)
    assert source_of(trainer, "w2", 1) != source
    assert broadcasts(trainer, "w2") == 0
    assert_all_alike(trainer)


def test_all_others_are_lost_while_it_is_fed_and_nothing_is_saved(trainer: Workers) -> None:
    """A mixture of its own parameters and of theirs is nothing to train on with."""
    feed_third(trainer)
    trainer.kill("w0", "w1")
    go_on(trainer, "w2-state")
    assert trainer.finish("w2") == {"w2": 75}, trainer.errors()


def test_somebody_else_is_lost_while_it_is_fed(trainer: Workers) -> None:
    trainer.start(3, FREETRAIN_MIN_MEMBERS="3")
    trainer.await_world(3)
    hang(trainer, "w3-state")
    trainer.start(1)
    await_message(trainer, "w3", "state")
    source = source_of(trainer, "w3")
    trainer.kill(next(name for name in ("w0", "w1", "w2") if name != source))
    go_on(trainer, "w3-state")
    trainer.await_world(3)
    end(trainer)
    assert_all_alike(trainer)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"OPTIMIZER": "hooked"}, "the optimizer has hooks"),
        ({"ALSO": "large"}, "what is in also={...}, are large"),
        ({"MEDDLE": "parameters"}, "something besides the optimizer changes"),
        ({"MEDDLE": "moments"}, "something besides the optimizer changes"),
    ],
)
def test_what_cannot_be_fed_comes_by_broadcast_and_that_is_said(
    trainer: Workers, facts: dict[str, str], reason: str
) -> None:
    trainer.environment |= facts
    train_with_a_third(trainer)
    assert broadcasts(trainer, "w2") == 1
    assert reason in trainer.error_of("w2")
    assert_all_alike(trainer)


def test_a_small_model_comes_by_broadcast_at_once(trainer: Workers) -> None:
    del trainer.environment["FREETRAIN_FEED_FROM_MB"]
    train_with_a_third(trainer)
    assert broadcasts(trainer, "w2") == 1
    assert trainer.directory.feed_offer("w2", 0) is None
