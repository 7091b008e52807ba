"""What a long history costs: the daemon's start, and the listings, on a database of many fragments.

    python -m benchmarks.history --fragments 500000 --days 30
    python -m benchmarks.history --fragments 960000 --days 35 --summed-days 330

The second is what is left of a year of ten million tasks with the default of ``state.keep``. CPU seconds are those
of processes of their own; the memory of the daemon is printed by itself.
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

from sqlalchemy import insert

from freetrain.daemon.reports.lent_days import day_of, start_of, sum_up_days
from freetrain.store.engine import for_writing, make_engine
from freetrain.store.ledger import Ledger
from freetrain.store.store import DAEMONS_STORE, Store
from freetrain.store.tables import FragmentRow, LentDayRow, LiveTrainerRow

DAY_S, TASKS, USERS, NODES, FIRST_ARRAY = 86400.0, 60, 50, 5000, 1_000_000

LOOK = """
import sys
from freetrain.config import load_config
from freetrain.daemon.service import Service
from tests.daemon.fake_slurm import FakeSlurm
from pathlib import Path
config = load_config(Path(sys.argv[1])).config
slurm = FakeSlurm()
slurm.submit_array("freetrain:min=1")
import time
slurm.now_s = time.time()
Service(config, slurm, lambda: config).run(cycles=2)
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).strip(), file=sys.stderr)
"""


def fill(path: Path, fragments: int, days: int) -> Ledger:
    """A database in which so many tasks ran in the last days, of arrays of sixty."""
    ledger = Store.open(path).ledger()
    draw, now_s = random.Random(1), time.time()
    engine = make_engine(path)
    for first in range(0, fragments, 100_000):
        rows, trainers = [], []
        for number in range(first, min(first + 100_000, fragments)):
            array, task = divmod(number, TASKS)
            array += FIRST_ARRAY
            start_s = now_s - days * DAY_S * (1 - number / fragments)
            if not task:
                trainers.append(_trainer(array, start_s))
            rows.append(_row(array, task, start_s, start_s + draw.uniform(60, 7200), now_s, draw))
        with for_writing(engine).begin() as connection:
            connection.execute(insert(LiveTrainerRow), trainers)
            connection.execute(insert(FragmentRow), rows)
    return ledger


def _trainer(array: int, start_s: float) -> dict[str, object]:
    return {
        "id": str(array), "owner": f"user{array % USERS}", "account": f"acc{array % 7}",
        "tag": "freetrain:kind=tasks", "state": "active", "note": "", "first_seen_s": start_s,
        "failures_in_a_row": 0, "rests_until_s": 0.0, "samples_done": 0.0, "progress_bytes": 0,
        "observations": [], "costs": {},
    }  # fmt: skip


def _row(
    array: int, task: int, start_s: float, end_s: float, now_s: float, draw: random.Random
) -> dict[str, object]:
    return {
        "job": f"{array}_{task}", "trainer": str(array), "node": f"n{draw.randrange(NODES)}", "state": "ended",
        "asked_s": start_s - 1, "limit_s": 7200.0, "started_s": start_s, "ended_s": min(end_s, now_s),
        "end": draw.choice(["completed", "completed", "preempted"]), "decision": "1:1", "share": 1.0,
    }  # fmt: skip


def fill_and_sum_up(path: Path, fragments: int, days: int, summed_days: int) -> None:
    """Fill a database, sum its days up, and add so many days before that, of which nothing but sums is left."""
    ledger = fill(path, fragments, days)
    began_s = time.process_time()
    sum_up_days(ledger, time.time())
    print(f"days summed up in {time.process_time() - began_s:.1f} s of CPU", flush=True)
    summed_until_s, draw = ledger.days.summed_until_s() or time.time(), random.Random(2)
    first = day_of(time.time() - days * DAY_S)
    with for_writing(make_engine(path)).begin() as connection:
        for number in range(1, summed_days + 1):
            day_s, until_s = start_of(first - timedelta(number)), start_of(first - timedelta(number - 1))
            assert until_s < summed_until_s
            sums = [_sum(day_s, until_s, user, draw) for user in range(USERS)]
            connection.execute(insert(LentDayRow), sums)


def _sum(day_s: float, until_s: float, user: int, draw: random.Random) -> dict[str, object]:
    return {
        "day_s": day_s, "until_s": until_s, "owner": f"user{user}", "account": f"acc{user % 7}", "kind": "tasks",
        "lent_s": draw.uniform(0, 1e7), "lost_to_starts_s": 1e4, "lost_to_ends_s": 1e4, "starts": 500,
        "evictions": 100,
    }  # fmt: skip


def measure(what: str, *command: str) -> None:
    """Print the CPU seconds and the memory of a process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began_s = time.monotonic()
    subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)
    wall_s, after = time.monotonic() - began_s, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{what:<40} {cpu_s:6.2f} s of CPU {wall_s:6.2f} s", flush=True)


def main() -> None:
    """Fill a database and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fragments", type=int, default=500_000)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--summed-days", type=int, default=0, help="days before that, of which the sums are left")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        path, config = Path(directory) / DAEMONS_STORE, Path(directory) / "freetrain.toml"
        state = f"[state]\ndirectory = '{directory}'\nstop_file = '{directory}/STOP'\n"
        config.write_text(f"[lend]\nmode = 'act'\n{state}")
        measure("start and two looks, nothing lent", "-c", LOOK, str(config))
        fill_and_sum_up(path, given.fragments, given.days, given.summed_days)
        size = path.stat().st_size / 1e6
        print(f"{given.fragments:,} fragments in {given.days} days, database of {size:.0f} MB", flush=True)
        since, with_config = f"now-{given.days + given.summed_days}days", ("--config", str(config))
        measure("start and two looks", "-c", LOOK, str(config))
        measure("history, the last 10,000", "-m", "freetrain", "history", *with_config, "--since", since)
        measure("ledger of all", "-m", "freetrain", "ledger", *with_config, "--from", since)


if __name__ == "__main__":
    main()
