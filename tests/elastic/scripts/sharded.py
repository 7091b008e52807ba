"""A training whose model is sharded over the workers of its node, with ``fully_shard``.

What the workers did goes to OUT: a line per batch, and at the end the whole model, one of whose parameters counts
how often each sample took part. While the file ``pace`` is there, each world makes some steps and then waits for
the next one. DIES: the size of a world whose last rank ends itself without warning, once, between the two updates
of a step.
"""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import torch

from freetrain import elastic

SAMPLES, BATCH = 45, 3
PER_EPOCH = SAMPLES // BATCH
WIDTH = 5
"""Of a layer: two workers have three and two rows of it."""
QUICK_STEPS = 6


class Data(torch.utils.data.Dataset):
    def __init__(self):
        random = torch.Generator().manual_seed(1)
        self.inputs = torch.randn(SAMPLES, 4, generator=random)
        self.targets = torch.randn(SAMPLES, 2, generator=random)

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        return index, self.inputs[index], self.targets[index]


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = torch.nn.Parameter(torch.zeros(SAMPLES))
        layers = torch.nn.Linear(4, WIDTH), torch.nn.BatchNorm1d(WIDTH).eval(), torch.nn.Tanh()
        self.hidden, self.out = torch.nn.Sequential(*layers), torch.nn.Linear(WIDTH, 2)

    def forward(self, ids, inputs):
        return self.out(self.hidden(inputs)), self.seen[ids].mean()


class Trained:
    """The model, a layer beside it that is not sharded, and all that belongs to their training."""

    def __init__(self, shard=lambda part: part, device="cpu"):
        torch.manual_seed(0)
        self.device = device
        self.model, self.last = Model().to(device), torch.nn.Linear(2, 2).to(device)
        shard(self.model.hidden)
        shard(self.model)
        self.others = [each for name, each in self.model.named_parameters() if name != "seen"]
        self.optimizer = torch.optim.AdamW([*self.others, *self.last.parameters()], 0.02)
        self.counter = torch.optim.SGD([self.model.seen], 1.0)
        self.schedule = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.999)

    def epoch(self, numbered, sync=lambda _: None, between_updates=lambda: None):
        """Number, samples and loss of each batch; a step takes two."""
        for number, (ids, inputs, targets) in numbered:
            made, seen = self.model(ids, inputs.to(self.device))
            loss = torch.nn.functional.mse_loss(self.last(made), targets.to(self.device)) / 2
            (loss - seen + seen.detach()).backward()
            if number % 2 == 1 or number + 1 == PER_EPOCH:
                sync(self.optimizer)
                torch.nn.utils.clip_grad_norm_(self.others, 0.1)
                self.optimizer.step()
                between_updates()
                self.counter.step()
                self.schedule.step()
                for optimizer in (self.optimizer, self.counter):
                    optimizer.zero_grad()
            yield number, ids.tolist(), loss.item()

    def state(self):
        """Of all that is trained, whole."""
        state = {**self.model.state_dict(), **{f"last.{key}": one for key, one in self.last.state_dict().items()}}
        return {name: each.full_tensor() if hasattr(each, "full_tensor") else each for name, each in state.items()}


class Pace:
    """Keeps the training from being over before the test is."""

    def __init__(self, out):
        self.slow = out / "pace"
        self.generations = Path(os.environ["FREETRAIN_TRAINER"]) / "generations"
        self.rested = 0

    def enter_world(self, _resize):
        self.rested, self.world = 0, self.newest_world()

    def rest(self):
        if self.newest_world() != self.world:
            self.enter_world(None)  # it waits until this worker sees it, however long that takes
        self.rested += 1
        until_s = time.monotonic() + (0.02 if self.rested <= QUICK_STEPS else 1.0)
        while time.monotonic() < until_s and self.slow.exists() and self.newest_world() == self.world:
            time.sleep(0.01)

    def newest_world(self):
        return max(path.name for path in self.generations.glob("*.json"))


def perhaps_die(out, run):
    if os.environ.get("DIES") == str(run.world_size) == str(run.rank + 1) and not (out / "died").exists():
        (out / "died").touch()
        os.kill(os.getpid(), signal.SIGKILL)


def main():
    # Not above: each process that only finds the tests of this would import it, too, for half a second.
    from torch.distributed.fsdp import fully_shard

    torch.set_num_threads(1)
    out, me = Path(os.environ["OUT"]), os.environ["FREETRAIN_MEMBER"]
    pace, log = Pace(out), (out / f"{me}.jsonl").open("a")
    mesh = elastic.node_mesh()
    trained = Trained(lambda part: fully_shard(part, mesh=mesh), elastic.device())
    data = torch.utils.data.DataLoader(Data(), BATCH, shuffle=True)
    options = {"epochs": int(os.environ["EPOCHS"]), "also": {"schedule": trained.schedule}}
    options["checkpoint_every_s"] = float(os.environ.get("CHECKPOINT_EVERY_S", "600"))
    models, optimizers = [trained.model, trained.last], [trained.optimizer, trained.counter]
    with elastic.Loop(models, optimizers, data, on_resize=pace.enter_world, **options) as run:
        for epoch in run.epochs():
            batches = trained.epoch(run.batches.numbered(), run.sync, lambda: perhaps_die(out, run))
            for number, ids, loss in batches:
                facts = {"step": run.step, "rank": run.rank, "world": run.world_size, "epoch": epoch}
                log.write(json.dumps({**facts, "number": number, "ids": ids, "loss": loss}) + "\n")
                log.flush()
                pace.rest()
    torch.save(trained.state(), out / f"model-{run.rank}.pt")


if __name__ == "__main__":
    main()
