"""Plays the child program that uses pyslurm: python fake_pyslurm_child.py ROLE [FILE]."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

RECORDED = Path(__file__).parent / "recorded" / "pyslurm_25.11.json"


def say(answer: object) -> None:
    print(json.dumps(answer), flush=True)


def main(role: str, file: str = "") -> None:
    if role == "hangs at import":
        time.sleep(60)
    if role == "fatal at import":
        sys.exit("fatal: Unable to process configuration file")
    if role == "not installed":
        say({"missing": "ModuleNotFoundError: No module named 'pyslurm'"})
        return
    say({"version": "23.2.1" if role == "too old" else "25.11.2"})
    for question in sys.stdin:
        if role == "hangs":
            time.sleep(60)
        if role == "crashes" or (role == "crashes once" and not Path(file).exists()):
            Path(file or os.devnull).touch()
            os.kill(os.getpid(), signal.SIGSEGV)
        if role == "talks nonsense":
            print("slurm_load_jobs: hm", flush=True)
        elif role == "of another version":
            say({"error": "Incompatible versions of client and server code"})
        elif role == "away":
            say({"error": "Unable to contact slurm controller (connect failure)"})
        else:
            whole = {} if role == "empty" else json.loads(RECORDED.read_text())
            say({name: [list(record.values()) for record in whole.get(name, [])] for name in question.split()})


if __name__ == "__main__":
    main(*sys.argv[1:])
