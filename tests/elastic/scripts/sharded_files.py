"""Prints what becomes of sharded checkpoints: FOLDER."""

from __future__ import annotations

import contextlib
import json
import pickle
import sys
from pathlib import Path

import torch
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.fsdp import fully_shard

from freetrain import elastic
from freetrain.elastic.errors import CheckpointError
from freetrain.elastic.training.checkpoints import Checkpoints
from freetrain.elastic.training.sharded_checkpoints import ShardedCheckpoints
from freetrain.elastic.worlds.replica import this_replica


class Evil:
    """Touches a file where it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def complaint(load):
    with contextlib.suppress(CheckpointError):
        return load()
    return "refused"


def main():
    folder = Path(sys.argv[1])
    folder.mkdir()
    mesh = elastic.node_mesh()
    model = fully_shard(torch.nn.Linear(3, 2), mesh=mesh)
    optimizer = torch.optim.Adam(model.parameters())
    sharded = ShardedCheckpoints(folder, 2, this_replica(), lambda: mesh)
    for step in range(1, 4):
        model(torch.ones(1, 3)).sum().backward()
        optimizer.step()
        state = {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
        sharded.save(state, step)
    facts = {"kept": sorted(path.name for path in folder.iterdir())}
    loaded = sharded.load_newest()
    facts["step"] = loaded["step"]
    first = loaded["optimizer"]["state"][0]["exp_avg"].full_tensor()
    facts["same"] = torch.equal(first, state["optimizer"]["state"][0]["exp_avg"].full_tensor())
    dcp_to_torch_save(folder / "step-0000000003", folder / "whole.pt")
    whole = torch.load(folder / "whole.pt", weights_only=True)
    facts["whole"] = torch.equal(whole["model.weight"], model.weight.full_tensor())
    with (folder / "step-0000000003" / "__0_0.distcp").open("r+b") as file:
        file.seek(-99, 2)
        file.write(b"!")
    facts["step_where_one_is_damaged"] = sharded.load_newest()["step"]
    with (folder / "step-0000000002" / ".metadata").open("wb") as file:
        pickle.dump(Evil(folder / "was-run"), file)
    facts["where_one_is_evil"] = complaint(sharded.load_newest)
    facts["was_run"] = (folder / "was-run").exists()
    facts["for_a_model_that_is_not_sharded"] = complaint(Checkpoints(folder).load_newest)
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
