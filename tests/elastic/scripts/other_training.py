from __future__ import annotations

import torch

from freetrain import elastic

model = torch.nn.Linear(2, 2)
with elastic.Run(model, torch.optim.SGD(model.parameters(), 0.1), 100, elastic.FixedBatch(10)) as run:
    for _step in run.steps():
        raise AssertionError("must not get here")
