"""A training whose ranks go ways of their own because of a mistake in the script.

MISTAKE: ``schedule`` makes a schedule in mid-training and tells nobody;
``rate`` and ``values`` change a learning rate, or a parameter, on one rank alone.
"""

from __future__ import annotations

import os

import torch

from freetrain import elastic

MISTAKE = os.environ["MISTAKE"]


def on_step(result):
    if result.step != 3 or result.rank != 1:
        return
    if MISTAKE == "rate":
        optimizer.param_groups[1]["lr"] *= 1.001
    elif MISTAKE == "values":
        with torch.no_grad():
            model[0].weight.mul_(1.1)


torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD([{"params": part.parameters()} for part in model], 0.001)
with elastic.Run(model, optimizer, 400, elastic.FixedBatch(8), on_step=on_step) as run:
    for step in run.steps():
        if MISTAKE == "schedule" and step.number == 3:
            torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.9**step)
        for ids in step:
            step.backward(model(ids[:, None] / 400 * torch.ones(4)).square().mean())
