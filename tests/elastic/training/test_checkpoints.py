from __future__ import annotations

from collections import Counter
from typing import Any

import torch

from freetrain.elastic.training.checkpoints import StateCopy


def trained() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    step(model, optimizer)
    return model, optimizer


def step(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().sum().backward()
    optimizer.step()


def memory_of(state: dict[str, Any]) -> Counter[int]:
    moments = [value for each in state["optimizer"]["state"].values() for value in each.values()]
    return Counter(tensor.data_ptr() for tensor in (*state["model"].values(), *moments))


def test_it_stays_as_it_is_while_the_training_goes_on() -> None:
    model, optimizer = trained()
    copied = StateCopy().of({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    before = {name: value.clone() for name, value in model.state_dict().items()}
    moment = optimizer.state_dict()["state"][0]["exp_avg"].clone()
    step(model, optimizer)
    optimizer.param_groups[0]["lr"] = 0.2
    assert not torch.equal(before["0.weight"], model.state_dict()["0.weight"])
    assert all(torch.equal(copied["model"][name], value) for name, value in before.items())
    assert torch.equal(copied["optimizer"]["state"][0]["exp_avg"], moment)
    assert copied["optimizer"]["param_groups"][0]["lr"] == 0.1


def test_the_next_copy_takes_the_memory_of_the_one_before() -> None:
    model, optimizer = trained()
    copies = StateCopy()
    first = copies.of({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    memory = memory_of(first)
    step(model, optimizer)
    # Something that was not there before does not move the rest.
    second = copies.of({"new": torch.ones(3), "model": model.state_dict(), "optimizer": optimizer.state_dict()})
    assert memory_of(second) == memory
    assert torch.equal(second["model"]["0.weight"], model.state_dict()["0.weight"])


def test_shared_memory_strides_and_containers_are_as_they_were() -> None:
    images = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)
    weight = torch.randn(6, 2)
    state = {
        "one": weight,
        "tied": weight,
        "row": weight[2],
        "seen": Counter({30: 1}),
        "pair": (images, [True, "x"]),
    }
    copied = StateCopy().of(state)
    assert copied["pair"][0].is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(copied["pair"][0], images)
    assert copied["pair"][1] == [True, "x"]
    assert copied["seen"] == Counter({30: 1})
    assert torch.equal(copied["row"], weight[2])
    copied["one"].zero_()
    assert copied["tied"].abs().sum() == copied["row"].abs().sum() == 0
    assert weight.abs().sum() > 0


def test_tensors_of_other_kinds_are_copied_too() -> None:
    sparse = torch.eye(3).to_sparse()
    state = {"sparse": sparse, "none": torch.empty(0), "parameter": torch.nn.Parameter(torch.ones(2))}
    copied = StateCopy().of(state)
    sparse.mul_(2)
    assert torch.equal(copied["sparse"].to_dense(), torch.eye(3))
    assert copied["none"].shape == (0,)
    assert isinstance(copied["parameter"], torch.nn.Parameter)
