"""A training whose parameters count how often each sample took part in it: 1/batch per time, exactly.

It ends early where the file ``enough`` is.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import torch

from freetrain import elastic

SAMPLES, BATCH = 240, 24
QUICK_STEPS = 10
"""Of each world, and again while the next one waits, if the file ``pace`` is there; then it almost stops."""
QUICK_STEP_S, SLOW_STEP_S = 0.03, 1.0


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = torch.nn.Parameter(torch.zeros(SAMPLES))
        middle = torch.nn.BatchNorm1d(16).eval()
        self.net = torch.nn.Sequential(torch.nn.Linear(6, 16), middle, torch.nn.Linear(16, 1))

    def forward(self, ids, inputs):
        return self.net(inputs).squeeze(1), self.seen[ids]


class Pace:
    """Keeps the training from being over before the test is, however slowly newcomers boot."""

    def __init__(self, out):
        self.slow = out / "pace"
        self.generations = Path(os.environ["FREETRAIN_TRAINER"]) / "generations"
        self.steps = 0
        # What a step takes one worker while the file is there; N of them take one N-th. 0: as above, whatever N.
        self.alone_s = float(os.environ.get("STEP_ALONE_S", "0"))

    def enter_world(self, _resize):
        self.steps = 0
        self.world = self.newest_world()

    def rest(self, workers):
        if self.newest_world() != self.world:
            self.enter_world(None)  # it waits until this worker sees it, however long that takes
        self.steps += 1
        until_s = time.monotonic() + (
            self.alone_s / workers or (0.03 if self.steps <= QUICK_STEPS else SLOW_STEP_S)
        )
        while time.monotonic() < until_s and self.slow.exists() and self.newest_world() == self.world:
            time.sleep(0.02)

    def newest_world(self):
        return max(path.name for path in self.generations.glob("*.json"))


def main():
    out, epochs = Path(os.environ["OUT"]), int(os.environ.get("EPOCHS", "10"))
    torch.set_num_threads(1)
    torch.manual_seed(0)
    device = elastic.device()
    model = Counting().to(device)
    inputs, targets = torch.randn(SAMPLES, 6).to(device), torch.randn(SAMPLES).to(device)
    optimizer = torch.optim.SGD(
        [
            {"params": [model.seen], "lr": 1.0},
            {"params": model.net.parameters(), "lr": 0.05, "momentum": 0.9},
        ]
    )
    pace = Pace(out)
    log = (out / f"{os.environ.get('FREETRAIN_MEMBER', os.getpid())}.jsonl").open("a")

    def on_step(result):
        facts = {"step": result.step, "loss": result.loss, "world": result.world, "rank": result.rank}
        log.write(json.dumps({**facts, "ids": result.ids, "mine": result.my_ids, "t_s": time.time()}) + "\n")
        log.flush()
        pace.rest(result.world)

    batch = elastic.FixedBatch(BATCH, at_most_per_pass=5)
    every_s = float(os.environ.get("CHECKPOINT_EVERY_S", "600"))
    first_step_s = float(os.environ.get("FIRST_STEP_S", "0"))
    hooks = {"on_step": on_step, "on_resize": pace.enter_world}
    with elastic.Run(model, optimizer, SAMPLES, batch, epochs=epochs, checkpoint_every_s=every_s, **hooks) as run:
        for step in run.steps():
            time.sleep(first_step_s)
            first_step_s = 0.0
            for ids in step:
                guess, seen = run.model(ids, inputs[ids])
                counted = seen.mean() - seen.mean().detach()
                step.backward(torch.nn.functional.mse_loss(guess, targets[ids]) - counted)
            if (out / "enough").exists():
                run.stop()
        counts = (model.seen.detach() * BATCH).tolist()
        (out / f"counts-{run.rank}.json").write_text(json.dumps(counts))


if __name__ == "__main__":
    sys.exit(main())
