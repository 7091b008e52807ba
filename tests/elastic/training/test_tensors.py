from __future__ import annotations

import torch

from freetrain.elastic.training.tensors import attach_tensors, detach_tensors


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
