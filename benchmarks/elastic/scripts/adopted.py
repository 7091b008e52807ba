"""The training as written for torchrun, with a DistributedSampler, so that it can be adopted."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from benchmarks.elastic.scripts.stamps import Stamps
from benchmarks.elastic.scripts.training import BATCH, SAMPLES, loss_of, make_model


def main() -> None:
    """Train until told to stop."""
    dist.init_process_group("gloo")
    stamps = Stamps()
    model, optimizer = make_model()
    dataset = TensorDataset(torch.arange(SAMPLES))
    sampler: DistributedSampler[int] = DistributedSampler(dataset, shuffle=False)
    loader = DataLoader(dataset, BATCH // dist.get_world_size(), sampler=sampler)
    wrapped = DistributedDataParallel(model, gradient_as_bucket_view=True)
    for epoch in range(1_000_000):
        sampler.set_epoch(epoch)
        stamps.begin()
        for number, (ids,) in enumerate(loader):
            loss_of(wrapped, ids).backward()  # type: ignore[no-untyped-call]
            stamps.end()
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
            if dist.get_rank() == 0:
                stamps.write(epoch * len(loader) + number, dist.get_world_size())
            stamps.begin()


if __name__ == "__main__":
    main()
