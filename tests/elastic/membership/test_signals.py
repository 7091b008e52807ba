from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

SCRIPT = """
import os, signal, sys, time
from freetrain.elastic.membership.signals import leave_signals_to_agent
{before}
leave_signals_to_agent()
os.kill(os.getpid(), signal.{name})
print("goes on", flush=True)
reading, writing = os.pipe()
child = os.fork()
if not child:
    os.write(writing, b"here")
    time.sleep(60)
    os._exit(0)
os.read(reading, 4)
os.kill(child, signal.{name})
print(-os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def said(name: str, before: str = "", agent: str = "vm-1") -> tuple[int, list[str]]:
    """How a worker ended, and what it said."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(name=name, before=before)],
        env=os.environ | {"FREETRAIN_AGENT": agent}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    return done.returncode, done.stdout.splitlines()


@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1", "SIGUSR2"])
def test_a_worker_goes_on_and_what_it_forked_does_not(name: str) -> None:
    assert said(name) == (0, ["goes on", str(signal.Signals[name].value)])


def test_without_an_agent_a_worker_ends_as_any_process() -> None:
    assert said("SIGTERM", agent="") == (-signal.SIGTERM, [])


def test_what_the_script_does_itself_on_a_signal_stays() -> None:
    before = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))"
    assert said("SIGTERM", before) == (7, [])
