"""Models that are sharded over the workers of each node train as they would alone in one process."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from freetrain.cli.run import poke_command
from freetrain.elastic.data.batching import Sampler, share_of
from tests.elastic.harness import Agents, printed_by
from tests.elastic.scripts.sharded import BATCH, SAMPLES, Data, Trained

pytestmark = pytest.mark.slow

EPOCHS = 4
BATCHES_PER_STEP = 2


class Alone:
    """The same training in one process, without any of the runtime but the order of the samples."""

    def __init__(self) -> None:
        self.ids: dict[tuple[int, int], list[int]] = {}
        self.losses: dict[tuple[int, int], float] = {}
        trained, data, sampler = Trained(), Data(), Sampler(SAMPLES, EPOCHS)
        for epoch in range(EPOCHS):
            batches = []
            while ids := sampler.peek(BATCH):
                batches.append((torch.tensor(ids), data.inputs[ids], data.targets[ids]))
                sampler.advance(len(ids))
            sampler.end_epoch()
            for number, mine, loss in trained.epoch(enumerate(batches)):
                self.ids[epoch, number], self.losses[epoch, number] = mine, loss
        self.state = trained.state()


@pytest.fixture(scope="module")
def alone() -> Alone:
    return Alone()


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    trainer = Agents(tmp_path, "sharded.py", EPOCHS=str(EPOCHS))
    trainer.pace(slow=True)
    yield trainer
    trainer.end()


def assert_same(trainer: Agents, alone: Alone) -> None:
    """Each rank had its share of each batch, and all have lost and learned what one process would have."""
    found: defaultdict[tuple[int, int, int], dict[int, float]] = defaultdict(dict)
    for record in trainer.records():
        batch, rank, world = (record["epoch"], record["number"]), record["rank"], record["world"]
        mine = share_of(alone.ids[batch], rank, world)
        assert record["ids"] == list(mine or alone.ids[batch][:1])
        found[(*batch, world)][rank] = record["loss"] * len(mine) / len(alone.ids[batch])
    whole = defaultdict(list)
    for (*batch, world), losses in found.items():
        if len(losses) == world:
            whole[tuple(batch)].append(sum(losses.values()))
    assert whole.keys() == alone.losses.keys()
    near = {place: pytest.approx(loss, rel=1e-3, abs=1e-5) for place, loss in alone.losses.items()}
    # A step whose first update was made before a rank was lost is made again with other parameters.
    assert sum(near[place] not in found for place, found in whole.items()) <= BATCHES_PER_STEP
    models = list(trainer.out.glob("model-*.pt"))
    assert models
    for path in models:
        for name, value in torch.load(path).items():
            assert torch.allclose(value, alone.state[name], atol=1e-5), f"{name} in {path}"
    assert torch.allclose(alone.state["seen"] * BATCH, torch.tensor(float(EPOCHS)))


@pytest.mark.parametrize("fed_from_mb", ["0", pytest.param("1", marks=pytest.mark.soak)])
def test_a_worker_dies_its_node_comes_back_another_one_joins_and_the_first_leaves(
    agents: Agents, alone: Alone, fed_from_mb: str
) -> None:
    """Newcomers are fed, each worker with its shard, or get the state while all wait."""
    agents.environment["FREETRAIN_FEED_FROM_MB"] = fed_from_mb
    first = agents.start_agent("--nproc", "2")
    agents.await_world(2)
    second = agents.start_agent("--nproc", "2", DIES="4")
    agents.wait_until((agents.out / "died").exists, "death in the middle of a step")
    agents.await_world(2)
    agents.await_world(4)
    third = agents.start_agent("--nproc", "2")
    agents.await_world(6)
    agents.processes[first].send_signal(15)
    assert agents.finish(first)[first] == 0
    agents.await_world(4)
    agents.pace(slow=False)
    assert agents.finish(second, third) == {second: 0, third: 0}, agents.errors()
    assert "Traceback" not in agents.errors()
    assert "not fed" not in agents.errors()
    fed = list((agents.root / "members").glob("*.feed"))
    assert bool(fed) == (fed_from_mb == "0")
    assert_same(agents, alone)


def test_all_killed_then_resumed_from_the_checkpoint_by_nodes_of_another_size(
    agents: Agents, alone: Alone
) -> None:
    agents.environment["CHECKPOINT_EVERY_S"] = "0.1"
    first = agents.start_agent("--nproc", "2", "--max-restarts", "0")
    agents.await_world(2)
    agents.wait_until(lambda: any(agents.directory.checkpoints.glob("step-*")), "checkpoint")
    agents.kill(first)
    done = agents.last_step()
    second = agents.start_agent("--nproc", "3", "--min", "3")
    agents.await_world(3)
    resumed = min(record["step"] for record in agents.records() if record["world"] == 3)
    assert 0 < resumed <= done
    stranger = agents.start_agent("--nproc", "2", "--max-restarts", "0")
    assert agents.finish(stranger) == {stranger: 1}
    assert "all nodes of a sharded training need the same number (--nproc)" in agents.error_of(stranger)
    assert "sharded over the 3 workers of each node" in str(
        CliRunner().invoke(poke_command, [str(agents.root), "--grow", "1"]).exception
    )
    agents.processes[second].send_signal(15)
    assert agents.finish(second)[second] == 0, agents.errors()
    left = agents.last_step()
    third = agents.start_agent("--nproc", "1")
    agents.await_world(1)
    assert min(record["step"] for record in agents.records() if record["world"] == 1) == left + 1
    agents.pace(slow=False)
    assert agents.finish(third) == {third: 0}, agents.errors()
    assert_same(agents, alone)


def test_models_that_are_distributed_otherwise_are_refused_with_sentences(tmp_path: Path) -> None:
    said = json.loads(printed_by("sharded_otherwise.py", in_folder=tmp_path))
    assert said.pop("sharded") == ""
    otherwise = "some parameters are distributed otherwise than by fully_shard over all workers of the node"
    assert said["hybrid"].startswith(otherwise)
    assert said["tensor"].startswith(otherwise)
    assert said["scaler"].startswith("a GradScaler cannot be used with a sharded model")
    assert said["scaling"].startswith("AdaScale cannot measure the gradients of a sharded model")
    assert said["run"] == ""
