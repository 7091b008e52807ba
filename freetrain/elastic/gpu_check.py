"""Checks of the elastic runtime on one GPU or more, in ten minutes: ``python -m freetrain.elastic.gpu_check``.

Each check is a process of its own with a time limit, so that one that hangs or crashes is a line of the table.
Out go the table and an exit status: 0 where all that was possible went well, 1 where something did not, 2 where
nothing was possible.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

import torch
import torch.distributed as dist

from freetrain import elastic
from freetrain.elastic.on_disk.directory import TRAINER_VARIABLE, TrainerDirectory
from freetrain.elastic.on_disk.members import LOCAL_RANK_VARIABLE, Generation, this_host
from freetrain.elastic.on_disk.progress import Rate, Rescale, read_progress
from freetrain.elastic.training.checkpoints import StateCopy
from freetrain.elastic.worlds.device import fault_of
from freetrain.elastic.worlds.groups import abort_nccl
from freetrain.elastic.worlds.guarded_store import StoreServer
from freetrain.elastic.worlds.world import World

_MODULE = "freetrain.elastic.gpu_check"
FAILED_STATUS, NO_DEVICE_STATUS = 1, 2
# As tests under automake say that they were skipped.
_NOT_POSSIBLE_STATUS = 77
_ALL_S = 600.0
_COPIED_BYTES = 256 << 20
_STEPS = 20
_WORLDS = 20
# Before NCCL 2.30, and since.
_DUPLICATE_GPU_MESSAGES = "Duplicate GPU", "Multiple Ranks are using the same GPU"
_ABORT_TIMEOUT_S, _WORLD_TIMEOUT_S = 10.0, 120.0


class NotPossibleError(Exception):
    """This cannot be tried here; the text is the reason."""


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


def _train(device: torch.device, **options: Any) -> None:
    model, optimizer = small_model(device)
    batch = elastic.FixedBatch(16, at_most_per_pass=8)
    with elastic.Run(model, optimizer, 16 * _STEPS, batch, **options) as run:
        for step in run.steps():
            for ids in step:
                inputs, targets = _batch(ids, device)
                step.backward(torch.nn.functional.mse_loss(run.model(inputs), targets))


def _loss_by_run(device: torch.device) -> float:
    """The last loss of a training whose steps the runtime makes."""
    results: deque[elastic.StepResult] = deque(maxlen=1)
    with tempfile.TemporaryDirectory() as folder:
        _train(device, trainer=Path(folder), on_step=results.append)
    return results[-1].loss


def _loss_by_loop(
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


def _compared(what: str, loss: float, other: str, other_loss: float, tolerance: float) -> str:
    """The figures of two trainings that are to learn the same."""
    is_alike = math.isclose(loss, other_loss, rel_tol=tolerance)
    assert is_alike, f"the last loss is {loss:g}, and {other_loss:g} {other}"
    return f"{what}; last loss {loss:.4g}, {other} {other_loss:.4g}"


def one_rank(device: torch.device) -> str:
    """``elastic.Run`` learns what it learns on the CPU."""
    here, on_cpu = _loss_by_run(device), _loss_by_run(torch.device("cpu"))
    return _compared(f"{_STEPS} steps of elastic.Run", here, "on the CPU", on_cpu, 0.02)


def mixed_precision(device: torch.device) -> str:
    """``elastic.Loop`` with autocast and GradScaler learns about what it learns without."""
    kind = torch.float16 if device.type == "cuda" else torch.bfloat16
    mixed, plain = _loss_by_loop(device, kind), _loss_by_loop(device)
    return _compared(f"autocast ({kind}) and GradScaler", mixed, "without", plain, 0.2)


def compiled(device: torch.device) -> str:
    """``elastic.Loop`` with a compiled model learns what it learns without."""
    # On the CPU inductor needs a C++ compiler, which a node need not have.
    backend = "inductor" if device.type == "cuda" else "eager"
    compiled = _loss_by_loop(device, wrap=lambda model: torch.compile(model, backend=backend))
    return _compared(f"torch.compile ({backend})", compiled, "without", _loss_by_loop(device), 0.02)


def _world_of_one(number: int, device: torch.device) -> World:
    store = StoreServer(words=[f"world {number}"])
    generation = Generation(number, ("me",), this_host(), "localhost", store.port, "", "start")
    world = World(generation, "me", f"world {number}", device, 10.0, lambda: [store.port])
    world.form(lambda: False)
    return world


def memory(device: torch.device) -> str:
    """Memory that a world leaves behind on the device."""
    used: list[int] = []
    for number in range(1, _WORLDS + 1):
        world = _world_of_one(number, device)
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
    world = _world_of_one(1, device)
    world.add_up([torch.ones(1, device=device)])
    begun_s = time.perf_counter()
    abort_nccl([world.group])
    elapsed_s = time.perf_counter() - begun_s
    assert elapsed_s < _ABORT_TIMEOUT_S, f"aborting took {elapsed_s:.1f} s"
    world.leave()
    assert not dist.is_initialized(), "the process group is still there"
    world = _world_of_one(2, device)
    tensor = torch.ones(1, device=device)
    world.add_up([tensor])
    assert float(tensor) == 1.0, "a sum in the next world is wrong"
    return f"aborted in {elapsed_s:.2f} s, and another world formed"


def two_ranks_on_one_device(device: torch.device) -> str:
    """Whether a GPU can have more than one worker."""
    with RankProcesses(device, same_device=True) as ranks:
        ranks.start(2)
        try:
            ranks.await_world(2, "two ranks on one device do not train")
        except AssertionError:
            if not any(text in ranks.output() for text in _DUPLICATE_GPU_MESSAGES):
                raise
            why = "NCCL refuses two ranks on one device, so that a GPU can have one worker only"
            raise NotPossibleError(why) from None
        return "two ranks train on one device"


def joins_and_leaves(device: torch.device) -> str:
    """A second rank comes and goes, and is killed."""
    with RankProcesses(device) as ranks:
        ranks.start(1)
        ranks.await_world(1, "no world of one")
        ranks.start(1)
        ranks.await_world(2, "no world of two")
        ranks.leave(1)
        ranks.await_world(1, "it did not leave")
        ranks.start(1)
        ranks.await_world(2, "no world of two again")
        ranks.processes[2].kill()
        ranks.await_world(1, "nobody goes on after a loss")
        pauses = ", ".join(f"{pause_s:.2f}" for pause_s in ranks.pauses_s())
        return f"pauses of {pauses} s: join, leave, join, kill -9"


def hung_peer(device: torch.device) -> str:
    """A rank that is stopped in the middle of a sum is given up, and the other one gets out of it."""
    with RankProcesses(device) as ranks:
        ranks.start(2)
        ranks.await_world(2, "no world of two")
        ranks.processes[1].send_signal(signal.SIGSTOP)
        ranks.await_world(1, "the other one hangs")
        return f"out of it, and on in {ranks.pauses_s()[-1]:.1f} s"


class RankProcesses:
    """A training in a temporary directory; used as a context, in whose end all of it ends."""

    def __init__(self, device: torch.device, *, same_device: bool = False) -> None:
        self._device = device
        self._same_device = same_device
        self._folder = tempfile.TemporaryDirectory(prefix="freetrain-gpu-check-", ignore_cleanup_errors=True)
        self._trainer = Path(self._folder.name) / "trainer"
        self._log = Path(self._folder.name) / "ranks.log"
        self.processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        self._folder.cleanup()

    def start(self, count: int) -> None:
        """Start so many ranks."""
        for _ in range(count):
            place = len(self.processes)
            environment = {
                TRAINER_VARIABLE: str(self._trainer),
                "FREETRAIN_MEMBER": f"rank-{place}",
                "FREETRAIN_LOST_AFTER_S": "3",
                LOCAL_RANK_VARIABLE: "0" if self._same_device else str(place % max(1, torch.cuda.device_count())),
                "OMP_NUM_THREADS": "1",
            }
            if not self._same_device and torch.cuda.device_count() == 1:
                # NCCL refuses two ranks of one host on one GPU; with different ids they count as on two hosts.
                environment["NCCL_HOSTID"] = str(place)
            program = f"from {_MODULE} import train_as_rank; train_as_rank('{self._device.type}')"
            command = [sys.executable, "-c", program]
            with self._log.open("ab") as log:
                process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=log, stderr=log)
            self.processes.append(process)

    def leave(self, place: int) -> None:
        """Ask one to leave."""
        TrainerDirectory.open(self._trainer).leave(f"rank-{place}")

    def await_world(self, size: int, otherwise: str) -> None:
        """Wait until a world of this size trains; raises AssertionError, with a rank's last line, if none does."""
        until_s = time.monotonic() + _WORLD_TIMEOUT_S
        # Where all have ended nothing comes any more.
        while time.monotonic() < until_s and any(process.poll() is None for process in self.processes):
            progress = self._progress()
            if progress and progress[-1].world == size:
                return
            time.sleep(0.1)
        raise AssertionError(f"{otherwise}: {(self.output().splitlines() or ['nobody says why'])[-1]}")

    def pauses_s(self) -> list[float]:
        """Pauses of all changes."""
        return [line.pause_s for line in self._progress() if isinstance(line, Rescale)]

    def output(self) -> str:
        """All that the ranks have printed."""
        return self._log.read_text(errors="replace").strip()

    def _progress(self) -> list[Rate | Rescale]:
        path = self._trainer / "progress.jsonl"
        if not path.exists():
            return []
        log = read_progress(path)
        return sorted((*log.rates, *log.rescales), key=lambda line: line.time_s)


def train_as_rank(kind: str) -> None:
    """Be one of several ranks, on this kind of device, until something ends it."""
    device = torch.device("cpu") if kind == "cpu" else elastic.device()
    _train(device, epochs=10**6, progress_every_s=0.5, on_step=lambda _: time.sleep(0.01))


CHECKS: dict[str, tuple[Callable[[torch.device], str], float]] = {
    "health": (health, 60.0),
    "copies on streams": (copies, 60.0),
    "copies of the state": (state_copy, 60.0),
    "one rank": (one_rank, 60.0),
    "mixed precision": (mixed_precision, 60.0),
    "compile": (compiled, 120.0),
    "memory of worlds": (memory, 90.0),
    "abort": (abort, 60.0),
    "two ranks on one device": (two_ranks_on_one_device, 90.0),
    "join, leave, kill": (joins_and_leaves, 150.0),
    "a rank that hangs": (hung_peer, 90.0),
}
"""Each check, and after how many seconds it counts as hung.

A check returns a line of figures. It raises NotPossibleError with the reason where it cannot be tried here, and
AssertionError, or whatever it does, if it goes wrong.
"""


def main() -> int:
    """All checks, or one of them in this process."""
    parser = argparse.ArgumentParser(prog="python -m freetrain.elastic.gpu_check")
    parser.add_argument(
        "--device", choices=("cuda", "cpu"), default="cuda", help="cpu tries the checks themselves, and no GPU"
    )
    parser.add_argument(
        "--only", nargs="+", choices=list(CHECKS), default=list(CHECKS), help="leave out the others"
    )
    parser.add_argument("--in-this-process", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.device == "cuda" and not torch.cuda.is_available():
        print("no GPU here that torch can use: nothing was checked", file=sys.stderr)
        return NO_DEVICE_STATUS
    if given.in_this_process:
        return _check(given.only[0], given.device)
    print(_where(given.device), flush=True)
    until_s, outcomes = time.monotonic() + _ALL_S, []
    for name in given.only:
        outcomes.append(_outcome_of(name, given.device, until_s))
        print(f"{name}: {outcomes[-1].verdict}", file=sys.stderr, flush=True)
    print(table(outcomes))
    print(summary(outcomes))
    return status_of(outcomes)


def _where(device: str) -> str:
    if device == "cpu":
        return "on the CPU with gloo: this checks the checks, and says nothing about any GPU"
    names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    nccl = ".".join(map(str, torch.cuda.nccl.version()))  # type: ignore[no-untyped-call]
    return f"{len(names)} x {names[0]}, torch {torch.__version__}, CUDA {torch.version.cuda}, NCCL {nccl}"


def _outcome_of(name: str, device: str, until_s: float) -> CheckOutcome:
    began_s = time.monotonic()
    limit_s = min(CHECKS[name][1], max(1.0, until_s - began_s))
    command = [sys.executable, "-m", _MODULE, "--device", device, "--in-this-process", "--only", name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s)
    except subprocess.TimeoutExpired:
        return CheckOutcome(name, CheckVerdict.TIMED_OUT, f"after {limit_s:g} s", time.monotonic() - began_s)
    verdicts = {0: CheckVerdict.WELL, _NOT_POSSIBLE_STATUS: CheckVerdict.NOT_POSSIBLE}
    verdict = verdicts.get(done.returncode, CheckVerdict.FAILED)
    # A process that a signal has ended says nothing about it.
    words = done.stdout if verdict is not CheckVerdict.FAILED else done.stderr if done.returncode > 0 else ""
    detail = (words.strip().splitlines() or [f"ended with {done.returncode}"])[-1]
    return CheckOutcome(name, verdict, detail, time.monotonic() - began_s)


def _check(name: str, device: str) -> int:
    try:
        check, _ = CHECKS[name]
        print(check(torch.device(device)))
    except NotPossibleError as reason:
        print(reason)
        return _NOT_POSSIBLE_STATUS
    except AssertionError as error:
        print(error, file=sys.stderr)
        return FAILED_STATUS
    return 0


class CheckVerdict(StrEnum):
    """The outcome of one check."""

    WELL = "well"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED OUT"
    NOT_POSSIBLE = "not possible"


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """One line of the table."""

    check: str  # its name
    verdict: CheckVerdict  # what came of it
    detail: str  # figures, or why
    elapsed_s: float  # how long it took


def status_of(outcomes: Sequence[CheckOutcome]) -> int:
    """Exit status: 0: all that was possible went well; 1: something did not; 2: nothing was possible."""
    verdicts = Counter(outcome.verdict for outcome in outcomes)
    if verdicts[CheckVerdict.FAILED] or verdicts[CheckVerdict.TIMED_OUT]:
        return FAILED_STATUS
    return 0 if verdicts[CheckVerdict.WELL] else NO_DEVICE_STATUS


def table(outcomes: Sequence[CheckOutcome]) -> str:
    """A line for each check."""
    rows = [("check", "", "s", "")]
    rows += [
        (outcome.check, str(outcome.verdict), f"{outcome.elapsed_s:.1f}", outcome.detail) for outcome in outcomes
    ]
    widths = [max(len(row[place]) for row in rows) for place in range(3)]
    lines = [
        f"{name:{widths[0]}}  {verdict:{widths[1]}}  {elapsed:>{widths[2]}}  {detail}".rstrip()
        for name, verdict, elapsed, detail in rows
    ]
    return "\n".join(lines)


def summary(outcomes: Sequence[CheckOutcome]) -> str:
    """The outcomes in a sentence."""
    verdicts = Counter(outcome.verdict for outcome in outcomes)
    return ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in CheckVerdict if verdicts[verdict])


if __name__ == "__main__":
    sys.exit(main())
