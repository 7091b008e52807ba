"""A training that ends early, or just when somebody joins. It uses after its loop what only its loop defines.

HOW=stop or break: what a member does in the step in which it finds ``end-MEMBER`` in OUT.
DEAF=1: this member takes the moment in which it would hear of the end for the loss of a rank, once.
LAST_STEP_WAITS_FOR: a member that must be in the latest generation before the last step is over.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import torch

from freetrain import elastic
from freetrain.elastic.errors import LostRankError
from freetrain.elastic.on_disk.directory import TrainerDirectory
from freetrain.elastic.script import run as run_module
from freetrain.elastic.training.training import ElasticTraining

OUT = Path(os.environ["OUT"])
ME = os.environ.get("FREETRAIN_MEMBER", "")
HOW = os.environ.get("HOW", "")
STEPS = int(os.environ.get("STEPS", "100000"))
AWAITED = os.environ.get("LAST_STEP_WAITS_FOR", "")


class Deaf(ElasticTraining):
    deaf = "DEAF" in os.environ

    def _agreed(self):
        verdict = super()._agreed()
        if Deaf.deaf and (verdict.stop or self.state.step == STEPS):
            Deaf.deaf = False
            raise LostRankError("not heard")
        return verdict


def on_step(result):
    with (OUT / f"{ME}.jsonl").open("a") as log:
        facts = {"step": result.step, "world": result.world, "rank": result.rank, "loss": result.loss}
        log.write(json.dumps(facts) + "\n")
    time.sleep(0.02)


def wait_for_newcomer():
    directory = TrainerDirectory.open(Path(os.environ["FREETRAIN_TRAINER"]))
    while AWAITED not in directory.view().ranks:
        time.sleep(0.01)


run_module.ElasticTraining = Deaf
torch.set_num_threads(1)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
with elastic.Run(model, optimizer, 8 * STEPS, elastic.FixedBatch(8), on_step=on_step) as run:
    for step in run.steps():
        for ids in step:
            loss = run.model(ids[:, None] * torch.ones(4)).square().mean()
            step.backward(loss)
        if AWAITED and step.number == STEPS:
            wait_for_newcomer()
        if (OUT / f"end-{ME}").exists():
            if HOW == "break":
                break
            run.stop()
    (OUT / f"after-{ME}").write_text(f"{run.step}")
    assert loss is not None
