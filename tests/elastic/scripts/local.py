"""A training whose ranks make several steps by themselves; without freetrain, what such ranks come to.

DIES: a member that ends itself without warning in the middle of the first round of its second epoch.
OPTIMIZER: of each rank: adamw or sgd.
"""

from __future__ import annotations

import copy
import json
import os
import signal
from itertools import islice
from pathlib import Path

import torch

SAMPLES, BATCH, EPOCHS, ROUND = 53, 8, 6, 3
ROUNDS_PER_EPOCH = 3
OPTIMIZERS = {
    "adamw": lambda parameters: torch.optim.AdamW(parameters, 0.01, weight_decay=0.01),
    "sgd": lambda parameters: torch.optim.SGD(parameters, 0.05),
}


class Trained:
    """A model, its data, and one rank's optimizer."""

    def __init__(self, optimizer, device="cpu"):
        random = torch.Generator().manual_seed(1)
        self.inputs = torch.randn(SAMPLES, 4, generator=random)
        self.targets = (
            self.inputs @ torch.tensor([1.0, -2.0, 0.5, 0.0]) + torch.randn(SAMPLES, generator=random) / 9
        )
        self.inputs, self.targets = self.inputs.to(device), self.targets.to(device)
        torch.manual_seed(0)
        layers = torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1)
        self.model = torch.nn.Sequential(*layers).to(device)
        self.optimizer = OPTIMIZERS[optimizer](self.model.parameters())

    def loss(self, ids):
        return torch.nn.functional.mse_loss(self.model(self.inputs[ids]).squeeze(1), self.targets[ids])

    def step(self, ids):
        self.optimizer.zero_grad()
        self.loss(ids).backward()
        self.optimizer.step()


def in_rounds(optimizer, ranks_of_round, share_of, sampler, outer_rate=0.7, outer_momentum=0.9):
    """What ranks come to, as the definition of DiLoCo has it: every rank a model of its own in this process."""
    ranks = [Trained(optimizer) for _ in range(max(ranks_of_round))]
    whole = copy.deepcopy(ranks[0].model)
    outer = torch.optim.SGD(whole.parameters(), outer_rate, momentum=outer_momentum, nesterov=outer_momentum > 0)
    rounds = iter(ranks_of_round)
    while not sampler.finished:
        batches = iter(batches_of(sampler))
        while some := list(islice(batches, ROUND)):
            present = ranks[: next(rounds)]
            for rank, one in enumerate(present):
                one.model.load_state_dict(whole.state_dict())
                for ids in some:
                    one.step(share_of(ids, rank, len(present)))
            for place, parameter in enumerate(whole.parameters()):
                parameter.grad = torch.zeros_like(parameter)
                for rank, one in enumerate(present):
                    share = sum(len(share_of(ids, rank, len(present))) for ids in some) / sum(map(len, some))
                    parameter.grad += share * (parameter - list(one.model.parameters())[place]).detach()
            outer.step()
    return whole


def batches_of(sampler):
    """One epoch's."""
    while ids := sampler.peek(BATCH):
        yield ids
        sampler.advance(len(ids))
    sampler.end_epoch()


def main():
    from freetrain import elastic

    torch.set_num_threads(1)
    out, me = Path(os.environ["OUT"]), os.environ["FREETRAIN_MEMBER"]
    trained = Trained(os.environ["OPTIMIZER"], elastic.device())
    local = elastic.LocalSteps(ROUND)
    batch = elastic.FixedBatch(BATCH)
    with elastic.Loop(trained.model, trained.optimizer, SAMPLES, batch, epochs=EPOCHS, local=local) as run:
        for _ in run.epochs():
            for number, ids in run.batches.numbered():
                trained.step(ids)
                if os.environ.get("DIES") == me and run.step == ROUNDS_PER_EPOCH and number == 1:
                    os.kill(os.getpid(), signal.SIGKILL)
    torch.save(trained.model.state_dict(), out / f"model-{me}.pt")
    (out / f"facts-{me}.json").write_text(json.dumps({"step": run.step, "world": run.world_size}))


if __name__ == "__main__":
    main()
