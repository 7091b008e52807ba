"""Runs the checks one after the other, and prints the table."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import torch

from freetrain.elastic.gpu_check.checks import (
    NotPossibleError,
    abort,
    compiled,
    copies,
    health,
    hung_peer,
    joins_and_leaves,
    memory,
    mixed_precision,
    one_rank,
    state_copy,
    two_ranks_on_one_device,
)

FAILED_STATUS, NO_DEVICE_STATUS = 1, 2
# As tests under automake say that they were skipped.
_NOT_POSSIBLE_STATUS = 77
_ALL_S = 600.0


@dataclass(frozen=True, slots=True)
class GpuCheck:
    """One of the checks.

    It returns a line of figures. It raises NotPossibleError with the reason where it cannot be tried here, and
    AssertionError, or whatever it does, if it goes wrong.
    """

    run: Callable[[torch.device], str]
    limit_s: float = 60.0  # after which it counts as hung


CHECKS = {
    "health": GpuCheck(health),
    "copies on streams": GpuCheck(copies),
    "copies of the state": GpuCheck(state_copy),
    "one rank": GpuCheck(one_rank),
    "mixed precision": GpuCheck(mixed_precision),
    "compile": GpuCheck(compiled, 120.0),
    "memory of worlds": GpuCheck(memory, 90.0),
    "abort": GpuCheck(abort),
    "two ranks on one device": GpuCheck(two_ranks_on_one_device, 90.0),
    "join, leave, kill": GpuCheck(joins_and_leaves, 150.0),
    "a rank that hangs": GpuCheck(hung_peer, 90.0),
}


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
    limit_s = min(CHECKS[name].limit_s, max(1.0, until_s - began_s))
    command = [sys.executable, "-m", __package__, "--device", device, "--in-this-process", "--only", name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s)
    except subprocess.TimeoutExpired:
        return CheckOutcome(name, CheckVerdict.TIMED_OUT, f"after {limit_s:g} s", time.monotonic() - began_s)
    elapsed_s = time.monotonic() - began_s
    last = (done.stdout.strip() or done.stderr.strip()).splitlines()[-1:] or [f"exit status {done.returncode}"]
    verdicts = {0: CheckVerdict.WELL, _NOT_POSSIBLE_STATUS: CheckVerdict.NOT_POSSIBLE}
    if verdict := verdicts.get(done.returncode):
        return CheckOutcome(name, verdict, last[0], elapsed_s)
    # The last line of what it complained of; a signal has none.
    lines = done.stderr.strip().splitlines() if done.returncode > 0 else []
    why = lines[-1] if lines else f"ended with {done.returncode}"
    return CheckOutcome(name, CheckVerdict.FAILED, why, elapsed_s)


def _check(name: str, device: str) -> int:
    try:
        print(CHECKS[name].run(torch.device(device)))
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
    """0: all that was possible went well; 1: something did not; 2: nothing was possible."""
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
