"""A made log of a machine whose nodes are shared by jobs with CPUs, memory and GPUs."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np

from tests.replay.logs.build import hour

HEADER = "JobID|Partition|State|Submit|Start|End|NNodes|NCPUS|NodeList|AllocTRES"
NODES = {
    **{f"a{number}": (64, 512, 8, "a100") for number in range(1, 7)},
    **{f"v{number}": (32, 256, 4, "v100") for number in range(1, 4)},
    **{f"c{number}": (128, 256, 0, "") for number in range(1, 4)},
}
"""Of each node CPUs, GiB of memory, GPUs and their type."""
SECONDS = 6 * 3600


def make_gpu_log(seed: int, tries: int = 900) -> str:
    """Jobs that never hold more than there is, as sacct -P prints them; some on two nodes, as much on each."""
    random = np.random.default_rng(seed)
    names = list(NODES)
    held = {name: np.zeros((3, SECONDS)) for name in names}
    rows = [HEADER]
    for job in range(1, tries):
        first = int(random.integers(len(names)))
        partner = names[(first + 1) % len(names)]
        on = [
            names[first],
            *([partner] if random.random() < 0.1 and NODES[partner] == NODES[names[first]] else []),
        ]
        cpus, memory_gib, gpus, kind = NODES[on[0]]
        want = (int(random.integers(1, cpus + 1)) // int(random.integers(1, 5)) or 1,
                int(random.integers(1, memory_gib // 2)), int(random.integers(0, gpus + 1)))  # fmt: skip
        begin = int(random.integers(0, SECONDS - 10))
        end = min(SECONDS, begin + int(random.exponential(2400)) + 5)
        size = np.array([[cpus], [memory_gib], [gpus]])
        if any((held[name][:, begin:end] + np.array(want)[:, None] > size).any() for name in on):
            continue
        for name in on:
            held[name][:, begin:end] += np.array(want)[:, None]
        rows.append(_row(job, on, begin, end, want, kind))
    return "\n".join(rows) + "\n"


def _row(job: int, on: list[str], begin: int, end: int, want: tuple[int, int, int], kind: str) -> str:
    cpus, memory_gib, gpus = (amount * len(on) for amount in want)
    memory = f"{memory_gib}G" if job % 3 else f"{memory_gib * 1024}M"
    gres = f",gres/gpu:{kind}={gpus},gres/gpu={gpus}" if gpus else ""
    tres = f"billing={cpus},cpu={cpus}{gres},mem={memory},node={len(on)}"
    list_ = on[0] if len(on) == 1 else f"{on[0][0]}[{on[0][1:]}-{on[1][1:]}]"
    partition = {"a": "gpu", "v": "gpu", "c": "batch"}[on[0][0]]
    start, stop = _time(begin), _time(end)
    return f"{job}|{partition}|COMPLETED|{start}|{start}|{stop}|{len(on)}|{cpus}|{list_}|{tres}"


def _time(second: int) -> str:
    return f"{datetime.fromtimestamp(hour(0) + second, UTC):%Y-%m-%dT%H:%M:%S}"
