"""Batch normalisation, and epochs of nine samples in steps of four: the last step has a single one."""

from __future__ import annotations

import os

import torch

from freetrain import elastic

torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
drop_last = os.environ.get("DROP_LAST") == "1"
with elastic.Run(model, optimizer, 9, elastic.FixedBatch(4), epochs=3, drop_last=drop_last) as run:
    for step in run.steps():
        for ids in step:
            step.backward(run.model(ids[:, None] * torch.ones(4)).square().mean())
    assert run.step == 6
