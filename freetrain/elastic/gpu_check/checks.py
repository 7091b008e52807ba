"""Checks of one device, of trainings of one rank, and of several ranks, which come, go, are killed and hang."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import torch
import torch.distributed as dist

from freetrain import elastic
from freetrain.elastic.on_disk.directory import TRAINER_VARIABLE, TrainerDirectory
from freetrain.elastic.on_disk.members import LOCAL_RANK_VARIABLE, Generation, this_host
from freetrain.elastic.training.checkpoints import StateCopy
from freetrain.elastic.worlds.device import fault_of
from freetrain.elastic.worlds.groups import abort_nccl
from freetrain.elastic.worlds.guarded_store import StoreServer
from freetrain.elastic.worlds.world import World

_COPIED_BYTES = 256 << 20
_STEPS = 20
_WORLDS = 20
_ABORT_S = 10.0
_LOST_AFTER_S = 3


class NotPossibleError(Exception):
    """This cannot be tried here; the text says why."""


def health(device: torch.device) -> str:
    """The check that every worker makes before it joins."""
    fault = fault_of(device)
    assert fault is None, fault.reason
    if device.type == "cpu":
        return "a product and copies are right"
    free, total = torch.cuda.mem_get_info(device)
    return f"a product and copies are right; {free / 2**30:.1f} of {total / 2**30:.1f} GiB are free"


def copies(device: torch.device) -> str:
    """Pinned copies on a stream of their own, as data loaders make them, arrive whole beside computing."""
    if device.type == "cpu":
        raise NotPossibleError("the CPU has no streams")
    pattern = torch.arange(_COPIED_BYTES // 8).pin_memory()
    stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    busy = torch.randn(2048, 2048, device=device)
    begun_s = time.perf_counter()
    with torch.cuda.stream(stream):
        there = pattern.to(device, non_blocking=True)
        back = torch.empty_like(pattern).pin_memory()
        back.copy_(there, non_blocking=True)
    for _ in range(10):
        busy = (busy @ busy).clamp(-1, 1)
    stream.synchronize()
    elapsed_s = time.perf_counter() - begun_s
    assert torch.equal(back, pattern), "copies on a stream did not arrive whole"
    return f"{2 * _COPIED_BYTES / elapsed_s / 1e9:.1f} GB/s there and back, beside products"


def state_copy(device: torch.device) -> str:
    """The copy of the state that checkpoints are written from."""
    tensors = {"a": torch.randn(1000, 1000, device=device), "b": torch.randn(7, device=device).bfloat16()}
    copier = StateCopy()
    # The first copy takes new memory, which costs more than copying.
    copier.of(tensors)
    begun_s = time.perf_counter()
    copied = copier.of(tensors)
    elapsed_s = time.perf_counter() - begun_s
    for name, tensor in tensors.items():
        assert copied[name].device.type == "cpu", f"{name} is not in the computer's memory"
        assert torch.equal(copied[name], tensor.cpu()), f"{name} differs"
    return f"{4_000_000 / elapsed_s / 1e9:.1f} GB/s into the computer's memory"


def small_model(device: torch.device) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    """A model with its optimizer, of the same parameters in each process and on each device."""
    torch.manual_seed(0)
    layers = torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)
    model = torch.nn.Sequential(*layers).to(device)
    return model, torch.optim.AdamW(model.parameters(), 0.01)


def _batch(ids: torch.Tensor, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    places = torch.arange(32)
    inputs = torch.sin((ids[:, None] + 1) * (places + 1) / 50.0).to(device)
    return inputs, inputs.sum(1, keepdim=True)


def _trained(device: torch.device) -> float:
    """The last loss of a training of one rank."""
    model, optimizer = small_model(device)
    results: deque[elastic.StepResult] = deque(maxlen=1)
    batch = elastic.FixedBatch(16, at_most_per_pass=8)
    with (
        tempfile.TemporaryDirectory() as folder,
        elastic.Run(model, optimizer, 16 * _STEPS, batch, trainer=Path(folder), on_step=results.append) as run,
    ):
        for step in run.steps():
            for ids in step:
                inputs, targets = _batch(ids, device)
                step.backward(torch.nn.functional.mse_loss(run.model(inputs), targets))
    return results[-1].loss


def one_rank(device: torch.device) -> str:
    """``elastic.Run`` learns what it learns on the CPU."""
    here, on_cpu = _trained(device), _trained(torch.device("cpu"))
    assert math.isclose(here, on_cpu, rel_tol=0.02), f"the last loss is {here:g}, and {on_cpu:g} on the CPU"
    return f"{_STEPS} steps of elastic.Run; last loss {here:.4g}, on the CPU {on_cpu:.4g}"


def _loop(
    device: torch.device,
    kind: torch.dtype | None = None,
    wrap: Callable[[Any], Any] = lambda model: model,
) -> float:
    """The last loss of a script that keeps its loop, in mixed precision of this kind or in none."""
    model, optimizer = small_model(device)
    called, last, is_mixed = wrap(model), float("nan"), kind is not None
    # With the default of 65,536 gradients may overflow in the first steps, which are then left out.
    scaler: Any = torch.amp.GradScaler(device.type, init_scale=256.0, enabled=is_mixed)
    with (
        tempfile.TemporaryDirectory() as folder,
        elastic.Loop(
            model, optimizer, 16 * _STEPS, elastic.FixedBatch(16), also={"scaler": scaler}, trainer=Path(folder)
        ) as run,
    ):
        for _ in run.epochs():
            for ids in run.batches:
                inputs, targets = _batch(ids, device)
                with torch.autocast(device.type, kind, enabled=is_mixed):
                    loss = torch.nn.functional.mse_loss(called(inputs), targets)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
                last = float(loss.detach())
    return last


def mixed_precision(device: torch.device) -> str:
    """``elastic.Loop`` with autocast and GradScaler learns about what it learns without."""
    kind = torch.float16 if device.type == "cuda" else torch.bfloat16
    plain, mixed = _loop(device), _loop(device, kind)
    assert math.isclose(plain, mixed, rel_tol=0.2), f"the last loss is {mixed:g}, and {plain:g} without"
    return f"autocast ({kind}) and GradScaler; last loss {mixed:.4g}, without {plain:.4g}"


def compiled(device: torch.device) -> str:
    """``elastic.Loop`` with a compiled model learns what it learns without."""
    # On the CPU inductor needs a C++ compiler, which a node need not have.
    backend = "inductor" if device.type == "cuda" else "eager"
    plain = _loop(device)
    compiled = _loop(device, wrap=lambda model: torch.compile(model, backend=backend))
    assert math.isclose(plain, compiled, rel_tol=0.02), f"the last loss is {compiled:g}, and {plain:g} without"
    return f"torch.compile ({backend}); last loss {compiled:.4g}, without {plain:.4g}"


def _world(number: int, backend: str) -> tuple[World, Any]:
    store = StoreServer(words=[f"world {number}"])
    generation = Generation(number, ("me",), this_host(), "localhost", store.port, "", "start")
    world = World(generation, "me", f"world {number}", backend, 10.0, lambda: [store.port])
    world.form(lambda: False)
    return world, store


def memory(device: torch.device) -> str:
    """Memory that a world leaves behind on the device."""
    backend = "gloo" if device.type == "cpu" else "cpu:gloo,cuda:nccl"
    used: list[int] = []
    for number in range(1, _WORLDS + 1):
        world, _store = _world(number, backend)
        tensor = torch.ones(1 << 20, device=device)
        world.add_up([tensor])
        del tensor
        world.leave()
        if device.type == "cuda":
            torch.cuda.synchronize()
            free, total = torch.cuda.mem_get_info(device)
            used.append(total - free)
    if not used:
        return f"{_WORLDS} worlds of one rank formed and left"
    # Since the fifth: the first worlds fill caches of torch's and NCCL's, which stay.
    grown = used[-1] - used[_WORLDS // 4]
    assert grown < 0.05 * used[_WORLDS // 4], f"{grown / 2**20:.0f} MiB more after {_WORLDS} worlds"
    in_use = f"{used[-1] / 2**20:.0f} MiB of the device in use after {_WORLDS} worlds"
    return f"{in_use}, {grown / 2**20:+.0f} since the fifth"


def abort(device: torch.device) -> str:
    """A communicator can be aborted, and another one formed in the same process."""
    if device.type == "cpu":
        raise NotPossibleError("gloo has nothing to abort: its connections are cut")
    world, _store = _world(1, "cpu:gloo,cuda:nccl")
    world.add_up([torch.ones(1, device=device)])
    begun_s = time.perf_counter()
    abort_nccl([None])
    elapsed_s = time.perf_counter() - begun_s
    assert elapsed_s < _ABORT_S, f"aborting took {elapsed_s:.1f} s"
    world.leave()
    assert not dist.is_initialized(), "the process group is still there"
    world, _store = _world(2, "cpu:gloo,cuda:nccl")
    tensor = torch.ones(1, device=device)
    world.add_up([tensor])
    assert float(tensor) == 1.0, "a sum in the next world is wrong"
    return f"aborted in {elapsed_s:.2f} s, and another world formed"


def two_ranks_on_one_device(device: torch.device) -> str:
    """Whether a GPU can have more than one worker."""
    with RankProcesses(device, same_device=True) as ranks:
        ranks.start(2)
        if ranks.await_world(2):
            return "two ranks train on one device"
        if ranks.printed("Duplicate GPU"):
            raise NotPossibleError("NCCL refuses two ranks on one device, so that a GPU can have one worker only")
        raise AssertionError(f"two ranks on one device do not train: {ranks.last_words()}")


def _several(device: torch.device) -> None:
    if device.type == "cuda" and torch.cuda.device_count() < 2:
        raise NotPossibleError("needs two devices")


def joins_and_leaves(device: torch.device) -> str:
    """A second rank comes and goes, and is killed."""
    _several(device)
    with RankProcesses(device) as ranks:
        ranks.start(1)
        ranks.require_world(1, "no world of one")
        ranks.start(1)
        ranks.require_world(2, "no world of two")
        ranks.leave(1)
        ranks.require_world(1, "it did not leave")
        ranks.start(1)
        ranks.require_world(2, "no world of two again")
        ranks.send(2, signal.SIGKILL)
        ranks.require_world(1, "nobody goes on after a loss")
        pauses = ", ".join(f"{pause_s:.2f}" for pause_s in ranks.pauses_s())
        return f"pauses of {pauses} s: join, leave, join, kill -9"


def hung_peer(device: torch.device) -> str:
    """A rank that is stopped in the middle of a sum is given up, and the other one gets out of it."""
    _several(device)
    with RankProcesses(device) as ranks:
        ranks.start(2)
        ranks.require_world(2, "no world of two")
        ranks.send(1, signal.SIGSTOP)
        ranks.require_world(1, "the other one hangs")
        return f"out of it, and on in {ranks.pauses_s()[-1]:.1f} s"


class RankProcesses:
    """A training in a temporary directory; used as a context, in whose end all of it ends."""

    def __init__(self, device: torch.device, *, same_device: bool = False) -> None:
        self._device = device
        self._same_device = same_device
        self._folder = tempfile.TemporaryDirectory(prefix="freetrain-gpu-check-", ignore_cleanup_errors=True)
        self._root = Path(self._folder.name)
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
        self._folder.cleanup()

    def start(self, count: int) -> None:
        """Start so many ranks."""
        for _ in range(count):
            place = len(self._processes)
            environment = {
                TRAINER_VARIABLE: str(self._trainer),
                "FREETRAIN_MEMBER": f"rank-{place}",
                "FREETRAIN_LOST_AFTER_S": str(_LOST_AFTER_S),
                LOCAL_RANK_VARIABLE: "0" if self._same_device else str(place % max(1, torch.cuda.device_count())),
                "OMP_NUM_THREADS": "1",
            }
            command = [sys.executable, "-m", __name__, self._device.type]
            with (self._root / f"rank-{place}.log").open("wb") as log:
                process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=log, stderr=log)
            self._processes.append(process)

    def leave(self, place: int) -> None:
        """Ask one to leave."""
        TrainerDirectory.open(self._trainer).leave(f"rank-{place}")

    def send(self, place: int, number: signal.Signals) -> None:
        """Kill one without a warning, or stop it, so that it is there and does nothing."""
        self._processes[place].send_signal(number)

    def await_world(self, size: int, patience_s: float = 120.0) -> bool:
        """Whether a world of this size trains within this time."""
        until_s = time.monotonic() + patience_s
        while self._world_size() != size:
            # Where all have ended nothing comes any more.
            if time.monotonic() > until_s or not any(process.poll() is None for process in self._processes):
                return self._world_size() == size
            time.sleep(0.1)
        return True

    def require_world(self, size: int, otherwise: str) -> None:
        """Wait until a world of this size trains; raises AssertionError, with a rank's last line, if none does."""
        if not self.await_world(size):
            raise AssertionError(f"{otherwise}: {self.last_words()}")

    def pauses_s(self) -> list[float]:
        """Pauses of all changes."""
        return [float(line["pause_s"]) for line in self._progress() if line["event"] == "rescale"]

    def printed(self, words: str) -> bool:
        """Whether a rank has printed these words."""
        return any(words in log for log in self._outputs())

    def last_words(self) -> str:
        """The last line that any of them printed."""
        return next((log.strip().splitlines()[-1] for log in self._outputs() if log.strip()), "nobody says why")

    @property
    def _trainer(self) -> Path:
        return self._root / "trainer"

    def _world_size(self) -> int:
        """Size of the world that did the last steps reported; 0 before the first."""
        return next((int(line["world"]) for line in reversed(self._progress())), 0)

    def _progress(self) -> list[dict[str, Any]]:
        path = self._trainer / "progress.jsonl"
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text.split("\n")[:-1]]

    def _outputs(self) -> list[str]:
        return [path.read_text(errors="replace") for path in sorted(self._root.glob("rank-*.log"))]


def main() -> None:
    """Train on this kind of device."""
    device = torch.device("cpu") if sys.argv[1] == "cpu" else elastic.device()
    torch.set_num_threads(1)
    model, optimizer = small_model(device)
    batch = elastic.FixedBatch(16)
    with elastic.Run(model, optimizer, 10**6, batch, epochs=1000, progress_every_s=0.5) as run:
        for step in run.steps():
            for ids in step:
                inputs = torch.sin(ids[:, None] * torch.arange(1, 33) / 50.0).to(device)
                step.backward(run.model(inputs).square().mean())
            time.sleep(0.01)


if __name__ == "__main__":
    main()
