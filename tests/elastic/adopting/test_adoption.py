from __future__ import annotations

import copy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler

from freetrain.elastic.adopting.__main__ import refuse
from freetrain.elastic.adopting.adoption import (
    Adoption,
    modules_beside,
    noticing_reads_of_gradients,
)
from freetrain.elastic.adopting.patches import _init_process_group, _noticing_exchanges, patches
from freetrain.elastic.errors import ODD_STATUS, NotAdoptedError
from freetrain.elastic.on_disk.directory import TrainerDirectory
from freetrain.elastic.training.state import Beside


def test_what_a_rehearsal_changes_beside_the_parameters_is_put_back() -> None:
    model = torch.nn.BatchNorm1d(2)
    optimizer = torch.optim.SGD(model.parameters(), 1.0)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    before = Beside([model], [optimizer], [schedule])
    model(torch.randn(4, 2))
    optimizer.step()
    schedule.step()
    before.put_back()
    assert (int(model.num_batches_tracked), optimizer.param_groups[0]["lr"], schedule.last_epoch) == (0, 1.0, 0)


def test_sums_over_other_workers_or_samples_than_the_script_may_believe_are_named_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "8")
    adoption: Any = Adoption()
    adoption._loop, adoption.is_rehearsing = SimpleNamespace(world_size=8, is_before_update=True), False
    adoption._loop.have_unequal_parts = False
    all_reduce = _noticing_exchanges(adoption, "all_reduce", lambda tensor, *args, **kwargs: tensor)
    loss = torch.ones(1)
    all_reduce(loss)
    adoption._loop.world_size = 3
    all_reduce(loss, dist.ReduceOp.MAX)
    all_reduce(loss, group="of the runtime")
    assert caplog.messages == []
    for _ in range(2):
        all_reduce(loss, op=dist.ReduceOp.SUM)
    adoption._loop.have_unequal_parts = True
    for _ in range(2):
        all_reduce(loss)
    of_ranks, of_parts = caplog.messages
    assert of_ranks.startswith("the script sums over the 3 workers that there are now, not over 8 ranks")
    assert of_parts.startswith("the script sums over 3 workers whose parts of a batch differ by a sample")


@pytest.mark.parametrize(
    ("name", "given", "trains", "is_refused"),
    [
        ("all_reduce", torch.ones(3, requires_grad=True) * 2, True, True),  # BarlowTwins
        ("all_gather", torch.ones(4, 3), True, True),  # SimCLR, MoCo
        ("all_reduce", torch.ones(3), True, False),  # DINO's centre
        ("all_gather", torch.ones(1), True, False),  # a loss that is logged
        ("broadcast", torch.ones(1), True, False),  # a flag
        ("all_gather", torch.ones(4, 3), False, False),  # predictions
    ],
)
def test_losses_over_samples_of_other_ranks_are_refused_by_what_exchanges_them(
    name: str, given: torch.Tensor, trains: bool, is_refused: bool
) -> None:
    adoption: Any = Adoption()
    adoption.models = [torch.nn.Linear(1, 1).train(trains)]
    exchange = _noticing_exchanges(adoption, name, lambda *_: "exchanged")
    assert exchange([], given) == "exchanged"
    with adoption._in_batch():
        if is_refused:
            with pytest.raises(NotAdoptedError) as refused:
                exchange([], given)
            assert refused.value.reason == f"it calls {name} to compute its loss from other ranks' samples, too"
        else:
            assert exchange([], given) == "exchanged"


def test_a_script_that_counts_its_ranks_otherwise_is_refused_or_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "8")
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setattr("freetrain.elastic.adopting.patches.form_alone", lambda rank, size: None)
    _init_process_group("nccl", "env://", world_size=8, rank=3)
    _init_process_group("nccl")
    assert caplog.messages == []
    _init_process_group(backend="nccl", init_method="tcp://localhost:1", world_size=8, rank=0)
    assert "the script says that it is rank 0, and was started as rank 3" in caplog.text
    with pytest.raises(NotAdoptedError) as refused:
        _init_process_group(backend="nccl", world_size=4, rank=3)
    assert refused.value.reason == "it says that there are 4 ranks, and freetrain runs it as for 8"


@pytest.mark.parametrize(("others_train", "is_member"), [(False, False), (True, True), (True, False)])
def test_a_newcomer_that_cannot_be_adopted_ends_alone_where_others_train(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others_train: bool, is_member: bool
) -> None:
    directory = TrainerDirectory.open(tmp_path)
    monkeypatch.setenv("FREETRAIN_TRAINER", str(tmp_path))
    view = SimpleNamespace(current=("another",) if others_train else ())
    monkeypatch.setattr(TrainerDirectory, "view", lambda _: view)
    if others_train and not is_member:
        with pytest.raises(SystemExit) as ended:
            refuse("it ended without a step", is_member=is_member)
        assert ended.value.code == ODD_STATUS
        assert directory.why_not_adopted() is None
    else:
        refuse("it ended without a step", is_member=is_member)
        assert directory.why_not_adopted() == "it ended without a step"


@pytest.mark.parametrize("name", ["new_group", "send", "recv", "batch_isend_irecv"])
def test_what_divides_its_ranks_in_other_ways_is_refused_by_its_name(name: str) -> None:
    replaced = {attribute: made for owner, attribute, made in patches(Adoption()) if owner is dist}
    with pytest.raises(NotAdoptedError) as refused:
        replaced[name](getattr(dist, name))()
    assert refused.value.reason == f"it uses {name}"


def test_modules_beside_the_models_are_those_with_tensors_of_their_own_that_no_other_one_contains() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    teacher = copy.deepcopy(model)
    around = torch.nn.Sequential(model)
    made = [*model.modules(), torch.nn.MSELoss(), *teacher.modules(), around, None]
    (found,) = modules_beside([model], made)
    before = copy.deepcopy(found.state_dict())
    assert set(before) == {"0.weight", "0.bias"}
    with torch.no_grad():
        teacher[0].weight.zero_()
    found.load_state_dict(before)
    torch.testing.assert_close(teacher[0].weight, model[0].weight)


def test_only_the_scripts_own_reads_of_gradients_are_noticed() -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    noticed: list[str] = []
    with noticing_reads_of_gradients(lambda: noticed.append("read")):
        assert weight.grad is None
        weight.sum().backward()
        torch.nn.utils.clip_grad_norm_([weight], 1.0)
        assert noticed == []
        assert weight.grad is not None
        assert noticed == ["read"]
    assert weight.grad is not None
    assert noticed == ["read"]


@pytest.mark.parametrize("is_scaled", [True, False])
def test_gradients_that_are_sums_already_are_no_matter_of_a_warning(
    is_scaled: bool, caplog: pytest.LogCaptureFixture
) -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    adoption: Any = Adoption()
    weight.sum().backward()
    with adoption._in_batch():
        if is_scaled:
            adoption.note_sums()
        assert weight.grad is not None
    assert bool(caplog.messages) is not is_scaled


def test_a_script_that_trains_without_a_divided_loader_is_refused_at_its_first_step() -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], 0.1)
    adoption = Adoption()
    adoption.before_step(optimizer)
    weight.sum().backward()
    with pytest.raises(NotAdoptedError) as refused:
        adoption.before_step(optimizer)
    assert refused.value.reason == "an optimizer steps outside a loop over a loader with a DistributedSampler"


@pytest.mark.parametrize(
    ("ahead", "per_step", "is_refused"), [(0, 1, False), (0, 3, False), (1, 1, True), (2, 1, True)]
)
def test_a_loop_that_takes_batches_ahead_of_its_steps_is_refused(
    ahead: int, per_step: int, is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    adoption: Any = Adoption()
    adoption.models, adoption._arrives = [model], lambda loader: False
    adoption.note_optimizer(optimizer)
    samples = torch.ones(24, 1)
    loader: Any = DataLoader(samples, 2, sampler=DistributedSampler(samples, 1, 0))  # type: ignore[arg-type]
    batches = adoption.iterate(loader, DataLoader.__iter__)

    def train() -> None:
        waiting = [next(batches) for _ in range(ahead)]
        for number, batch in enumerate(batches, 1):
            waiting.append(batch)
            model(waiting.pop(0)).sum().backward()
            if number % per_step == 0:
                optimizer.step()

    if is_refused:
        with pytest.raises(NotAdoptedError):
            train()
    else:
        train()


def test_a_training_whose_loader_is_another_one_in_the_next_epoch_is_restarted_and_does_not_fail() -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], 0.1)
    adoption: Any = Adoption()
    adoption.is_rehearsing, adoption._loop = False, SimpleNamespace(is_in_step=False)
    with pytest.raises(NotAdoptedError):
        adoption.before_step(optimizer)


def test_two_loops_that_are_open_at_once_may_end_in_any_order() -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    weight.sum().backward()
    noticed: list[str] = []
    first = noticing_reads_of_gradients(lambda: noticed.append("first"))
    second = noticing_reads_of_gradients(lambda: noticed.append("second"))
    first.__enter__()
    second.__enter__()
    assert weight.grad is not None
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert weight.grad is not None
    assert noticed == ["first"]
