from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.elastic.harness import Workers, assert_exactly_once, losses, workers

pytestmark = pytest.mark.slow

EPOCHS = 15


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[int, float]:
    """Loss by step of a world that never changes."""
    with workers(tmp_path_factory.mktemp("reference"), EPOCHS=str(EPOCHS)) as trainer:
        trainer.start(2, FREETRAIN_MIN_MEMBERS="2")
        assert set(trainer.finish().values()) == {0}, trainer.errors()
        assert_exactly_once(trainer, EPOCHS)
        return losses(trainer)


@pytest.fixture
def trainer(tmp_path: Path):
    """Trains slowly until the test says otherwise."""
    with workers(tmp_path, EPOCHS=str(EPOCHS)) as trainer:
        trainer.pace(slow=True)
        yield trainer


def assert_same(trainer: Workers, reference: dict[int, float]) -> None:
    """Same samples, each once, and the same loss at every logged step."""
    assert_exactly_once(trainer, EPOCHS)
    found = losses(trainer)
    assert len(found) > 0.95 * len(reference)
    for step, loss in found.items():
        assert loss == pytest.approx(reference[step], rel=1e-3, abs=1e-5), f"step {step}"


def assert_noticed_by_their_processes(trainer: Workers) -> None:
    """Not only when they had given no sign of life for long."""
    reasons = {name: trainer.directory.is_gone(name) for name in trainer.processes}
    killed = {name for name, process in trainer.processes.items() if process.returncode == -9}
    assert {name for name, reason in reasons.items() if reason == "its process ended without a word"} == killed


def test_same_curve_through_2_4_3_1_4(trainer: Workers, reference: dict[int, float]) -> None:
    for leaf in ("left", "right"):
        trainer.start(1, FREETRAIN_MIN_MEMBERS="2", SLURM_TOPOLOGY_ADDR=f"top.{leaf}.n1")
    trainer.await_world(2)
    for leaf in ("left", "right"):
        trainer.start(1, SLURM_TOPOLOGY_ADDR=f"top.{leaf}.n2")
    trainer.await_world(4)
    # Newcomers take the ranks that their switches give them, and the ring begins with who was rank 0.
    assert trainer.ranks() in (("w0", "w2", "w1", "w3"), ("w1", "w3", "w0", "w2"))
    trainer.leave("w1")
    trainer.await_world(3)
    trainer.leave("w0", "w3")
    trainer.await_world(1)
    trainer.start(3)
    trainer.await_world(4)
    trainer.pace(slow=False)
    assert set(trainer.finish().values()) == {0}, trainer.errors()
    assert_same(trainer, reference)


def test_same_curve_where_collectives_behave_as_nccls_do(tmp_path: Path, reference: dict[int, float]) -> None:
    with workers(tmp_path, "like_nccl.py", EPOCHS=str(EPOCHS)) as trainer:
        trainer.pace(slow=True)
        trainer.start(4, FREETRAIN_MIN_MEMBERS="4")
        trainer.await_world(4)
        trainer.leave("w1")
        trainer.await_world(3)
        trainer.kill(trainer.ranks()[0])
        trainer.await_world(2)
        trainer.stop(trainer.ranks()[1])
        trainer.await_world(1)
        trainer.start(1)
        trainer.await_world(2)
        trainer.pace(slow=False)
        survivors = trainer.ranks()
        assert trainer.finish(*survivors) == dict.fromkeys(survivors, 0), trainer.errors()
        assert_same(trainer, reference)


def test_same_curve_after_kill_of_rank_0_and_of_another(trainer: Workers, reference: dict[int, float]) -> None:
    trainer.start(4, FREETRAIN_MIN_MEMBERS="4")
    trainer.await_world(4)
    trainer.kill(trainer.ranks()[0])
    trainer.await_world(3)
    trainer.kill(trainer.ranks()[-1])
    trainer.await_world(2)
    trainer.pace(slow=False)
    assert sorted(trainer.finish().values()) == [-9, -9, 0, 0], trainer.errors()
    assert_noticed_by_their_processes(trainer)
    assert_same(trainer, reference)


def test_same_curve_while_servers_come_leave_and_are_killed(trainer: Workers, reference: dict[int, float]) -> None:
    trainer.start(2, FREETRAIN_MIN_MEMBERS="2")
    trainer.await_world(2)
    trainer.serve(1)
    trainer.await_servers("s0")
    trainer.await_world(2)
    trainer.kill("s0")
    trainer.await_servers()
    trainer.await_world(2)
    trainer.serve(2)
    trainer.await_servers("s1", "s2")
    trainer.start(1)
    trainer.await_world(3)
    trainer.kill("w1")
    trainer.leave("s1")
    trainer.await_servers("s2")
    trainer.await_world(2)
    trainer.pace(slow=False)
    assert trainer.finish() == {"w0": 0, "w1": -9, "w2": 0, "s0": -9, "s1": 0, "s2": 0}, trainer.errors()
    assert_noticed_by_their_processes(trainer)
    assert_same(trainer, reference)


def test_two_killed_at_once_and_the_third_goes_on_from_its_own_memory(
    trainer: Workers, reference: dict[int, float]
) -> None:
    trainer.start(3, FREETRAIN_MIN_MEMBERS="3")
    trainer.await_world(3)
    trainer.kill(*trainer.ranks()[:2])
    trainer.await_world(1)
    assert list(trainer.directory.checkpoints.iterdir()) == []
    trainer.pace(slow=False)
    assert sorted(trainer.finish().values()) == [-9, -9, 0], trainer.errors()
    assert_noticed_by_their_processes(trainer)
    assert_same(trainer, reference)


def test_killed_while_the_world_forms_and_replaced_at_once(trainer: Workers, reference: dict[int, float]) -> None:
    trainer.start(4, FREETRAIN_MIN_MEMBERS="4")
    trainer.wait_until(lambda: len(trainer.ranks()) == 4, "first generation")
    trainer.kill("w3")
    trainer.start(1)
    trainer.await_world(4)
    trainer.start(1)
    trainer.wait_until(lambda: "w5" in trainer.ranks(), "generation of the newcomer")
    trainer.kill("w5")
    trainer.start(1)
    trainer.await_world(5)
    trainer.pace(slow=False)
    assert sorted(trainer.finish().values()) == [-9, -9, 0, 0, 0, 0, 0], trainer.errors()
    assert_same(trainer, reference)


def test_a_stopped_rank_is_given_up(trainer: Workers, reference: dict[int, float]) -> None:
    trainer.environment["FREETRAIN_LOST_AFTER_S"] = "3"
    trainer.start(3, FREETRAIN_MIN_MEMBERS="3")
    trainer.await_world(3)
    stopped = trainer.ranks()[1]
    trainer.stop(stopped)
    trainer.await_world(2)
    trainer.pace(slow=False)
    others = [name for name in trainer.processes if name != stopped]
    assert set(trainer.finish(*others).values()) == {0}, trainer.errors()
    assert "no sign of life" in trainer.directory.view().gone[stopped]
    assert_same(trainer, reference)


def test_a_stopped_rank_that_wakes_up_knows_that_it_is_out(trainer: Workers, reference: dict[int, float]) -> None:
    trainer.environment["FREETRAIN_LOST_AFTER_S"] = "3"
    trainer.start(2, FREETRAIN_MIN_MEMBERS="2")
    trainer.await_world(2)
    stopped = trainer.ranks()[0]
    trainer.stop(stopped)
    trainer.await_world(1)
    trainer.processes[stopped].send_signal(signal.SIGCONT)
    assert trainer.finish(stopped)[stopped] == 75
    trainer.pace(slow=False)
    trainer.finish()
    assert_same(trainer, reference)


def test_a_rank_that_comes_to_no_end_of_its_step_is_given_up_where_that_is_asked_for(
    trainer: Workers, reference: dict[int, float]
) -> None:
    trainer.environment["FREETRAIN_HUNG_AFTER_S"] = "3"
    trainer.start(1, FREETRAIN_MIN_MEMBERS="2")
    trainer.start(1, FREETRAIN_MIN_MEMBERS="2", FIRST_STEP_S="1000")
    trainer.await_world(1)
    assert "no sign of progress" in trainer.directory.view().gone["w1"]
    trainer.kill("w1")
    trainer.pace(slow=False)
    assert trainer.finish("w0") == {"w0": 0}, trainer.errors()
    assert_same(trainer, reference)


def test_all_killed_then_resumed_from_the_checkpoint(trainer: Workers, reference: dict[int, float]) -> None:
    trainer.environment["CHECKPOINT_EVERY_S"] = "0.3"
    trainer.start(2, FREETRAIN_MIN_MEMBERS="2")
    trainer.await_world(2)
    trainer.wait_until(lambda: any(trainer.directory.checkpoints.glob("*.pt")), "checkpoint")
    trainer.kill("w0", "w1")
    done = trainer.last_step()
    trainer.start(3)
    trainer.await_world(3)
    trainer.pace(slow=False)
    trainer.finish()
    resumed = min(record["step"] for record in trainer.records("w2", "w3", "w4"))
    assert 1 < resumed <= done + 1
    assert_same(trainer, reference)


def test_the_last_to_leave_writes_a_checkpoint(trainer: Workers, reference: dict[int, float]) -> None:
    trainer.start(2, FREETRAIN_MIN_MEMBERS="2")
    trainer.await_world(2)
    trainer.leave("w0", "w1")
    assert trainer.finish() == {"w0": 0, "w1": 0}, trainer.errors()
    done = trainer.last_step()
    assert [path.name for path in trainer.directory.checkpoints.iterdir()] == [f"step-{done:010d}.pt"]
    trainer.pace(slow=False)
    trainer.start(1)
    trainer.finish()
    assert min(record["step"] for record in trainer.records("w2")) == done + 1
    assert_same(trainer, reference)


def test_a_store_on_a_service_host_outlives_every_rank_and_may_vanish_itself(
    trainer: Workers, reference: dict[int, float]
) -> None:
    service = subprocess.Popen(
        [sys.executable, "-m", "freetrain.elastic.service", "0"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert service.stdout is not None
        port = service.stdout.readline().split()[-1]
        trainer.environment["FREETRAIN_SERVICE"] = f"localhost:{port}"
        trainer.start(2, FREETRAIN_MIN_MEMBERS="2")
        trainer.await_world(2)
        assert trainer.directory.view().generation.host == "service"
        trainer.kill(trainer.ranks()[0])
        trainer.await_world(1)
        service.kill()
        trainer.start(1)
        trainer.await_world(2)
        assert trainer.directory.view().generation.host != "service"
    finally:
        service.kill()
        service.wait()
    trainer.pace(slow=False)
    assert sorted(trainer.finish().values()) == [-9, 0, 0], trainer.errors()
    assert_same(trainer, reference)
