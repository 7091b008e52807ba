"""Loops that scripts keep, and what each step leaves: run by workers here, and by the test without freetrain.

LOOP: ``classifier`` (accumulation, clipping, a schedule, a DataLoader with a worker process and a collate_fn, a
GradScaler and a sample whose gradients are infinite) or ``rivals`` (two models and optimizers, and a mean at the
end of each epoch).
VARIANT of the classifier: ``bfloat16``, ``compiled`` or ``stream``, whose data can only be read in order.
DIES: ``MEMBER:PLACE:STEP``, where a member ends itself without warning; ``Life.pass_by`` is told of each place.
AWAITED: ``STEP:MEMBER``: nobody goes on in this step before it knows that this member is in the next world.
KNOCKS: a member that must have joined before somebody dies.
"""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader

SAMPLES, BATCH, EPOCHS = 53, 7, 3
PER_EPOCH = -(-SAMPLES // BATCH)
INFINITE = 35
"""The sample whose gradients are, in the step that is lost too."""


class Life:
    """Where a worker dies or waits; elsewhere nothing happens."""

    def __init__(self):
        self.me = os.environ.get("FREETRAIN_MEMBER", "")
        self.out = Path(os.environ["OUT"])
        self.dies = os.environ.get("DIES", "").split(",")
        self.awaited = os.environ.get("AWAITED", "")
        self.knocks = os.environ.get("KNOCKS", "")

    def pass_by(self, place, step):
        if any(one.endswith(f":{place}:{step}") for one in self.dies):
            (self.out / f"passed-{place}-{step}-{self.me}").touch()
        if f"{self.me}:{place}:{step}" in self.dies:
            # What was before this place has come to its end on all ranks.
            while len(list(self.out.glob(f"passed-{place}-{step}-*"))) < self.run.world_size:
                time.sleep(0.01)
            (self.out / f"dying-{self.me}").touch()
            while self.knocks and self.knocks not in self.view().members:
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)
        if place == "batch" and self.awaited.startswith(f"{step}:"):
            (self.out / "awaits").touch()
            while self.awaited.partition(":")[2] not in self.run._training.session.view.ranks:
                time.sleep(0.01)

    def view(self):
        from freetrain.elastic.on_disk.directory import TrainerDirectory

        return TrainerDirectory.open(Path(os.environ["FREETRAIN_TRAINER"])).view()


class Charmed:
    """The life of a loop that nothing happens to."""

    def pass_by(self, place, step):
        pass


class Images(torch.utils.data.Dataset):
    def __init__(self):
        random = torch.Generator().manual_seed(1)
        self.images = torch.randn(SAMPLES, 2, 6, 6, generator=random)
        self.targets = torch.randn(SAMPLES, 3, generator=random)

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        return index, self.images[index], self.targets[index]


class Stream(torch.utils.data.IterableDataset):
    """Goes on where it is told to, once."""

    def __init__(self):
        self.images = Images()
        self.place = self.start = 0

    def __iter__(self):
        start, self.start = self.start, 0
        for self.place in range(start + 1, SAMPLES + 1):
            yield self.images[self.place - 1]

    def state_dict(self):
        return {"place": self.place}

    def load_state_dict(self, state):
        self.start = state["place"]


def together(items):
    ids, images, targets = zip(*items, strict=True)
    return list(ids), torch.stack(images).to(memory_format=torch.channels_last), torch.stack(targets)


class Classifier:
    """Two batches per step; the last step of an epoch has batches of different sizes."""

    def __init__(self, variant="", device="cpu"):
        torch.manual_seed(0)
        self.device = torch.device(device)
        self.model = torch.nn.Sequential(
            torch.nn.Conv2d(2, 4, 3), torch.nn.BatchNorm2d(4).eval(), torch.nn.ReLU(), torch.nn.Flatten(),
            torch.nn.Linear(64, 3),
        ).to(self.device, memory_format=torch.channels_last)  # fmt: skip
        self.called = torch.compile(self.model, backend="eager") if variant == "compiled" else self.model
        self.autocast = torch.autocast(self.device.type, torch.bfloat16, enabled=variant == "bfloat16")
        self.models = [self.model]
        self.optimizers = [torch.optim.SGD(self.model.parameters(), 0.05, momentum=0.9, weight_decay=0.01)]
        self.schedule = torch.optim.lr_scheduler.ExponentialLR(self.optimizers[0], 0.97)
        self.scaler = torch.amp.GradScaler(self.device.type, init_scale=1024.0)
        self.also = {"schedule": self.schedule, "scaler": self.scaler}
        self.steps = []

    def epoch(self, numbered, step_of, life, mean):
        (optimizer,) = self.optimizers
        for number, (ids, images, targets) in numbered:
            life.pass_by("batch", step_of())
            with self.autocast:
                made = self.called(images.to(self.device))
                loss = torch.nn.functional.mse_loss(made, targets.to(self.device)) / 2
            self.scaler.scale(loss * float("inf") if INFINITE in ids else loss).backward()
            if number % 2 == 1 or number + 1 == PER_EPOCH:
                self.scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), 0.5)
                self.scaler.step(optimizer)
                self.scaler.update()
                self.schedule.step()
                optimizer.zero_grad()
                life.pass_by("stepped", step_of())
            self.steps.append((number, ids))


class Rivals:
    """One model makes numbers of others, and the other one learns to tell them from the true ones."""

    def __init__(self, variant="", device="cpu"):
        torch.manual_seed(0)
        self.device = torch.device(device)
        self.maker, self.judge = torch.nn.Linear(3, 3), torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh())
        self.models = [self.maker.to(self.device), self.judge.to(self.device)]
        self.optimizers = [torch.optim.Adam(each.parameters(), 0.02) for each in self.models]
        self.schedule = torch.optim.lr_scheduler.ExponentialLR(self.optimizers[0], 0.7)
        self.also = {"schedule": self.schedule}
        self.steps = []
        self.means = []

    def epoch(self, numbered, step_of, life, mean):
        make, tell = self.optimizers
        for number, (ids, images, targets) in numbered:
            life.pass_by("batch", step_of())
            images, targets = images.to(self.device), targets.to(self.device)
            made = self.maker(images[:, 0, 0, :3])
            tell.zero_grad()
            (self.judge(made.detach()).square().mean() - self.judge(targets).sin().mean()).backward()
            tell.step()
            life.pass_by("between", step_of())
            make.zero_grad()
            (self.judge(made) - 0.5).square().mean().backward()
            make.step()
            life.pass_by("stepped", step_of())
            self.steps.append((number, ids))
        self.schedule.step()
        life.pass_by("epoch", step_of())
        self.means.append(mean(10.0 * (step_of() + 1)))


LOOPS = {"classifier": Classifier, "rivals": Rivals}


def main():
    from freetrain import elastic

    torch.set_num_threads(1)
    loop, life = LOOPS[os.environ["LOOP"]](os.environ.get("VARIANT", ""), elastic.device()), Life()
    if os.environ.get("VARIANT") == "stream":
        data = DataLoader(Stream(), BATCH, collate_fn=together)
    else:
        classifies = os.environ["LOOP"] == "classifier"
        data = DataLoader(Images(), BATCH, shuffle=True, collate_fn=together, num_workers=int(classifies))
    with elastic.Loop(loop.models, loop.optimizers, data, epochs=EPOCHS, also=loop.also) as run:
        life.run, epochs = run, []
        for epoch in run.epochs():
            epochs.append(epoch)
            assert os.environ.get("VARIANT") == "stream" or len(run.batches) == PER_EPOCH
            loop.epoch(run.batches.numbered(), lambda: run.step, life, run.mean)
    state = [each.state_dict() for each in loop.models]
    torch.save(state, life.out / f"model-{life.me}.pt")
    facts = {"epochs": epochs, "steps": loop.steps, "means": getattr(loop, "means", []), "world": run.world_size}
    facts["also"] = {name: item.state_dict() for name, item in loop.also.items()}
    (life.out / f"facts-{life.me}.json").write_text(json.dumps(facts))


if __name__ == "__main__":
    main()
