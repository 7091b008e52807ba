"""A script's own error ends its worker, a lost rank costs the others a step, whatever the error's text says."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from freetrain.elastic import FixedBatch, Loop
from freetrain.errors import InputError
from tests.elastic.harness import Workers, workers

PLACES = ("forward", "loss", "backward", "data", "before_update", "optimizer", "on_step", "on_resize")
MESSAGE = "RuntimeError: connection to the feature store timed out: peer gone"
LINE = "raise RuntimeError(MESSAGE)  # the line in the traceback"


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Workers]]:
    """For each place a training of one worker that fails there, all booting at once."""
    with contextlib.ExitStack() as stack:
        trainers = {}
        for place in PLACES:
            folder = tmp_path_factory.mktemp(place)
            trainers[place] = stack.enter_context(workers(folder, "failing.py", WHERE=place))
            (trainers[place].out / "fail-all").touch()
            trainers[place].start()
        yield trainers


@pytest.mark.parametrize("place", PLACES)
def test_an_error_of_the_script_ends_its_worker_at_once(alone: dict[str, Workers], place: str) -> None:
    trainer = alone[place]
    assert trainer.finish() == {"w0": 1}
    assert_own_traceback(trainer.error_of("w0"))
    assert trainer.directory.view().number == 1


def assert_own_traceback(text: str) -> None:
    assert LINE in text
    assert text.rstrip().splitlines()[-1] == MESSAGE
    assert "another exception occurred" not in text


def test_the_others_go_on_without_who_failed_and_form_no_world_with_it(tmp_path: Path) -> None:
    failing = {f"w{index}": place for index, place in enumerate((*PLACES[:4], "on_step"), 1)}
    with workers(tmp_path, "failing.py", FREETRAIN_MIN_MEMBERS=str(len(failing) + 1)) as trainer:
        trainer.start()
        for place in failing.values():
            trainer.start(WHERE=place)
        trainer.await_world(len(failing) + 1)
        for left, name in enumerate(reversed(failing), 1):
            number = trainer.directory.view().number
            (trainer.out / f"fail-{name}").touch()
            assert trainer.finish(name) == {name: 1}
            assert_own_traceback(trainer.error_of(name))
            trainer.await_world(len(failing) + 1 - left)
            assert trainer.directory.view().number == number + 1
            assert name not in trainer.ranks()
        (trainer.out / "done").touch()
        assert trainer.finish("w0") == {"w0": 0}, trainer.errors()


def test_a_rank_killed_in_the_same_places_is_survived(tmp_path: Path) -> None:
    killed = {"w1": "forward", "w2": "backward", "w3": "data", "w4": "optimizer"}
    environment = {"FREETRAIN_MIN_MEMBERS": str(len(killed) + 1), "HOW": "kill"}
    with workers(tmp_path, "failing.py", **environment) as trainer:
        trainer.start()
        for place in killed.values():
            trainer.start(WHERE=place)
        trainer.await_world(len(killed) + 1)
        for left, name in enumerate(killed, 1):
            (trainer.out / f"fail-{name}").touch()
            assert trainer.finish(name) == {name: -9}
            trainer.await_world(len(killed) + 1 - left)
        (trainer.out / "done").touch()
        assert trainer.finish("w0") == {"w0": 0}, trainer.errors()
        assert "Traceback" not in trainer.error_of("w0")


def test_a_world_that_cannot_form_with_nobody_missing_ends_with_the_reason(tmp_path: Path) -> None:
    with workers(tmp_path, "failing.py", GLOO_SOCKET_IFNAME="nonsense") as trainer:
        trainer.start()
        assert trainer.finish() == {"w0": 1}
        text = trainer.error_of("w0")
        assert "BrokenWorldError: 3 worlds in a row broke although no member was missing" in text
        assert "init_process_group" in text
        assert "GLOO_SOCKET_IFNAME" in text


def test_a_newcomer_that_cannot_connect_gives_up_and_the_others_go_on(tmp_path: Path) -> None:
    with workers(tmp_path, "failing.py") as trainer:
        trainer.start()
        trainer.await_world(1)
        trainer.start(GLOO_SOCKET_IFNAME="nonsense")
        assert trainer.finish("w1") == {"w1": 1}
        assert "BrokenWorldError" in trainer.error_of("w1")
        trainer.await_world(1)
        (trainer.out / "done").touch()
        assert trainer.finish("w0") == {"w0": 0}, trainer.errors()


def test_who_waits_for_more_members_says_so(tmp_path: Path) -> None:
    with workers(tmp_path, "failing.py", FREETRAIN_MIN_MEMBERS="3") as trainer:
        trainer.start(2)
        trainer.wait_until(lambda: len(trainer.directory.view().members) == 2, "two members")
        sentence = "waiting for 1 more: 2 are here, and it starts with 3 (--min)"
        trainer.wait_until(lambda: sentence in trainer.error_of("w0") + trainer.error_of("w1"), "sentence")


def minimise_by_line_search(folder: Path) -> None:
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.LBFGS(model.parameters())
    with Loop(model, optimizer, 16, FixedBatch(8), trainer=folder) as run:
        for _ in run.epochs():
            for _ids in run.batches:
                optimizer.step(lambda: 0.0)


def test_a_script_that_asks_for_what_cannot_be_done_hears_in_its_traceback_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        minimise_by_line_search(tmp_path)
    lines = "".join(traceback.format_exception(caught.value))
    assert "LBFGS.step() was called with a closure" in lines
    assert "or take another optimizer." in lines
