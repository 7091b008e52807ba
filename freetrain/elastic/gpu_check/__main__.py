"""Runs the checks one after the other, and prints the table."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

import torch

from freetrain.elastic.gpu_check.checks import CHECKS
from freetrain.elastic.gpu_check.outcomes import (
    FAILED_STATUS,
    NO_DEVICE_STATUS,
    NotPossibleError,
    Outcome,
    Verdict,
    status_of,
    summary,
    table,
)

_NOT_POSSIBLE_STATUS = 77
_ALL_S = 600.0


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


def _outcome_of(name: str, device: str, until_s: float) -> Outcome:
    began_s = time.monotonic()
    limit_s = min(CHECKS[name].limit_s, max(1.0, until_s - began_s))
    command = [sys.executable, "-m", __package__, "--device", device, "--in-this-process", "--only", name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s)
    except subprocess.TimeoutExpired:
        return Outcome(name, Verdict.TIMED_OUT, f"after {limit_s:g} s", time.monotonic() - began_s)
    elapsed_s = time.monotonic() - began_s
    last = (done.stdout.strip() or done.stderr.strip()).splitlines()[-1:] or [f"exit status {done.returncode}"]
    verdicts = {0: Verdict.WELL, _NOT_POSSIBLE_STATUS: Verdict.NOT_POSSIBLE}
    verdict = verdicts.get(done.returncode, Verdict.FAILED)
    return Outcome(name, verdict, last[0] if verdict != Verdict.FAILED else _why(done), elapsed_s)


def _why(done: subprocess.CompletedProcess[str]) -> str:
    """The last line of what it complained of; a signal has none."""
    lines = done.stderr.strip().splitlines()
    return lines[-1] if lines and done.returncode > 0 else f"ended with {done.returncode}"


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


if __name__ == "__main__":
    sys.exit(main())
