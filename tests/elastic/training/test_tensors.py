from __future__ import annotations

from collections import Counter

import numpy as np
import torch

from freetrain.elastic.training.tensors import attach_tensors, detach_tensors, with_plain_numbers
from freetrain.elastic.worlds.exchange import decode, encode


def test_a_state_is_what_it_was_when_it_is_filled_again_also_where_places_are_written_alike() -> None:
    own = {"weight": torch.zeros(2)}
    state = {
        "model": {"weight": torch.ones(2)},
        "also": {"a.b": torch.tensor(1), "a": {"b": torch.tensor(2)}, 1: (torch.tensor(3), "x"), "1": [None]},
    }
    skeleton, sent = detach_tensors(state)
    filled, received = attach_tensors(skeleton, own, lambda: None)  # type: ignore[arg-type,return-value]
    assert list(sent.tensors) == list(received.tensors) == ["model.weight", "also.a.b", "also.a.b'", "also.1.0"]
    for name, tensor in received.tensors.items():
        tensor.copy_(sent.tensors[name])
    assert own["weight"].tolist() == [1.0, 1.0]
    assert str(filled) == str(state)


def test_numbers_of_numpy_become_pythons_own_wherever_they_lie() -> None:
    weight = torch.ones(2)
    state = {"lr": np.float64(0.1), "betas": (np.float32(0.5), 0.9), "steps": [np.int64(3)], "weight": weight}
    plain = with_plain_numbers({**state, "milestones": Counter({4: 2})})
    assert [type(plain["lr"]), type(plain["betas"][0]), type(plain["steps"][0])] == [float, float, int]
    assert plain["weight"] is weight
    assert list(plain["milestones"].elements()) == [4, 4]
    assert decode(encode(plain)) is not None
