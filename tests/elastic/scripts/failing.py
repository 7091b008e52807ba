"""A training that fails in one place of the script, when its member is told to: by an error, or by being killed.

WHERE is the place, ``fail-MEMBER`` in OUT the sign; HOW=kill kills the process there instead of raising an error.
"""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import torch

from freetrain import elastic

OUT = Path(os.environ["OUT"])
ME = os.environ.get("FREETRAIN_MEMBER", "")
WHERE = os.environ.get("WHERE", "")
FAILED = []
"""Once in a process, as an error that is gone at the next try: taken for a lost rank, nobody would see it."""
MESSAGE = "connection to the feature store timed out: peer gone"


def fail(where):
    if where != WHERE or FAILED or not ((OUT / f"fail-{ME}").exists() or (OUT / "fail-all").exists()):
        return
    FAILED.append(where)
    if os.environ.get("HOW") == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    raise RuntimeError(MESSAGE)  # the line in the traceback


class FailsBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values):
        return values.clone()

    @staticmethod
    def backward(ctx, gradient):
        fail("backward")
        return gradient


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)

    def forward(self, inputs):
        fail("forward")
        return self.second(FailsBackward.apply(self.first(inputs))).squeeze(1)


class Data:
    def __len__(self):
        return 64

    def __getitem__(self, index):
        fail("data")
        return torch.randn(4)


class Optimizer(torch.optim.SGD):
    def step(self, closure=None):
        fail("optimizer")
        return super().step(closure)


def on_step(result):
    fail("on_step")
    with (OUT / f"{ME}.jsonl").open("a") as log:
        facts = {"step": result.step, "world": result.world, "rank": result.rank, "loss": result.loss}
        log.write(json.dumps(facts) + "\n")
    if (OUT / "done").exists():
        raise SystemExit(0)
    time.sleep(0.02)


def before_update(_model):
    fail("before_update")


def on_resize(_resize):
    fail("on_resize")


torch.set_num_threads(1)
model = Model()
with elastic.Run(
    model,
    Optimizer(model.parameters(), 0.01),
    Data(),
    elastic.FixedBatch(8),
    epochs=10_000,
    before_update=before_update,
    on_step=on_step,
    on_resize=on_resize,
) as run:
    for step in run.steps():
        for inputs in step:
            guess = run.model(inputs)
            fail("loss")
            step.backward(guess.square().mean())
