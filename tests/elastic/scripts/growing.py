"""A training that newcomers are fed with; each rank logs a digest of its parameters and its optimizer's state.

OPTIMIZER: its name, or ``hooked``. PART_BYTES: what is sent after each step. ALSO=large carries along much.
MEDDLE=parameters or moments changes them past the optimizer in each step.
LOOP=1 keeps its loop, with an optimizer for each half of the model.
DIES: ``MEMBER:UPDATES``, a member that ends itself after so many of the two, once a newcomer called w2 is ready.
ELSEWHERE=1 pretends to be on another machine.
A member that finds ``hang-MEMBER-KIND`` in OUT stands still after each message of this kind that it has taken in.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import time
import zlib
from pathlib import Path

import torch

from freetrain import elastic
from freetrain.elastic.feeding import feeder, link, newcomer
from freetrain.elastic.training import state, worlds

OUT = Path(os.environ["OUT"])
ME = os.environ["FREETRAIN_MEMBER"]
OPTIMIZERS = {
    "sgd": lambda groups: torch.optim.SGD(groups, 0.01, momentum=0.9, weight_decay=0.01),
    "adam": lambda groups: torch.optim.AdamW(groups, 0.01, amsgrad=True),
    "fused": lambda groups: torch.optim.Adam(groups, 0.01, fused=True),
    "rprop": lambda groups: torch.optim.Rprop(groups, 0.01),
    "hooked": lambda groups: torch.optim.SGD(groups, 0.01),
}
broadcasts = []


class Large:
    def state_dict(self):
        return {"numbers": torch.zeros(3_000_000)}

    def load_state_dict(self, state_dict):
        assert state_dict["numbers"].numel() == 3_000_000


class Begun:
    """How often the script has begun a step, which it counts before the step is made."""

    def __init__(self):
        self.count = 0

    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, state_dict):
        self.count = state_dict["count"]


def digest():
    states = [one.state.get(each, {}) for one in optimizers for each in model.parameters()]
    known = [value for state in states for value in state.values()]
    tensors = [*model.parameters(), *(value for value in known if isinstance(value, torch.Tensor))]
    content = b"".join(bytes(each.detach().contiguous().numpy().tobytes()) for each in tensors)
    return hashlib.sha256(content).hexdigest()[:12]


def on_step(result):
    schedule.step()
    log(result.step, result.world, result.rank, result.loss)


def log(step, world, rank, loss):
    with torch.no_grad():
        if os.environ.get("MEDDLE") == "parameters":
            model[0].weight.clamp_(-0.5, 0.5)
        if os.environ.get("MEDDLE") == "moments":
            optimizer.state[model[0].weight]["exp_avg"].zero_()
    facts = {"step": step, "world": world, "rank": rank, "loss": loss}
    facts |= {"digest": digest(), "broadcasts": len(broadcasts), "rate": schedule.get_last_lr()}
    facts |= {"begun": begun.count, "generation": run._training.world.generation.number}
    with (OUT / f"{ME}.jsonl").open("a") as stream:
        stream.write(json.dumps(facts) + "\n")
    if (OUT / "done").exists():
        run.stop()
    time.sleep(0.02)


def counted(*arguments):
    broadcasts.append(1)
    return state.broadcast_state(*arguments)


def unhurried(take):
    def take_in_time(self, message, *arguments):
        take(self, message, *arguments)
        (OUT / f"took-{ME}-{message['kind']}").touch()
        while (OUT / f"hang-{ME}-{message['kind']}").exists():
            time.sleep(0.01)

    return take_in_time


worlds.broadcast_state = counted
newcomer.Newcomer._take = unhurried(newcomer.Newcomer._take)
feeder.STEP_BYTES = int(os.environ.get("PART_BYTES", "1"))
if "ELSEWHERE" in os.environ:
    link.this_host = lambda: f"the machine of {ME}"
torch.set_num_threads(1)
torch.manual_seed(zlib.crc32(ME.encode()))
model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(32, 4)
).to(memory_format=torch.channels_last)
model[4].bias.requires_grad_(False)
groups = [{"params": model[0].parameters(), "lr": 0.02}, {"params": list(model.parameters())[2:]}]
if "LOOP" in os.environ:
    optimizers = [OPTIMIZERS["adam"](groups[:1]), OPTIMIZERS["sgd"](groups[1:])]
else:
    optimizers = [OPTIMIZERS[os.environ.get("OPTIMIZER", "adam")](groups)]
optimizer = optimizers[0]
if os.environ.get("OPTIMIZER") == "hooked":
    optimizer.register_step_post_hook(lambda *_: None)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.999)
begun = Begun()
also = {"schedule": schedule, "begun": begun}
if os.environ.get("ALSO") == "large":
    also["large"] = Large()


def clip(module):
    torch.nn.utils.clip_grad_norm_(module.parameters(), 0.1)


def loss_of(called, ids):
    images = (ids[:, None, None, None] % 97 / 97 * torch.ones(3, 4, 4)).sin()
    return (called(images) - ids[:, None] / 10**6).square().mean()


def perhaps_die(updates):
    if os.environ.get("DIES") == f"{ME}:{updates}" and "w2" in run._training.session.view.ready:
        os.kill(os.getpid(), signal.SIGKILL)


batch = elastic.FixedBatch(8)
if "LOOP" in os.environ:
    with elastic.Loop(model, optimizers, 10**6, batch, also=also) as run:
        for _ in run.epochs():
            for ids in run.batches:
                begun.count += 1
                log(run.step, run.world_size, run.rank, float("nan"))
                loss_of(model, ids).backward()
                perhaps_die(0)
                run.sync(optimizers[0])
                clip(model[0])
                optimizers[0].step()
                perhaps_die(1)
                optimizers[1].step()
                schedule.step()
                for each in optimizers:
                    each.zero_grad()
else:
    options = {"also": also, "before_update": clip, "on_step": on_step}
    with elastic.Run(model, optimizer, 10**6, batch, **options) as run:
        for step in run.steps():
            for ids in step:
                step.backward(loss_of(run.model, ids))
