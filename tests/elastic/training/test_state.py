from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from freetrain.elastic.training.state import TrainingState
from freetrain.errors import InputError


def test_what_newcomers_and_checkpoints_cannot_have_is_refused_by_its_kind() -> None:
    model = torch.nn.Linear(2, 1)
    sampler: Any = SimpleNamespace(state_dict=dict)
    item: Any = SimpleNamespace(state_dict=lambda: {"options": SimpleNamespace(a=1)})
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    TrainingState(model, [optimizer], sampler, {}).check()
    with pytest.raises(InputError, match=r"holds types\.SimpleNamespace"):
        TrainingState(model, [optimizer], sampler, {"mine": item}).check()
