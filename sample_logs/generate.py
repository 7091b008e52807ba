"""Make a job log such as a site might have: `sacct -P` text with node lists, or SWF without.

By default a small scheduler (first come, first served, with EASY backfill) runs made-up jobs on a made-up machine,
so that nodes drain before large jobs start as they do on real ones. With ``--rows`` no scheduler runs: that many
jobs are put on nodes at random, fast, to measure how quickly a log is read; their holes mean nothing.

Needs Python 3.11 and numpy, nothing of freetrain.
"""

from __future__ import annotations

import argparse
import gzip
import heapq
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

HOUR_S = 3600
DAY_S = 24 * HOUR_S
MONDAY_S = 1_717_372_800  # 2024-06-03T00:00:00Z
WARM_UP_S = 3 * DAY_S
CORES = 32
BACKFILL_DEPTH = 200
HEADER = "JobID|JobName|User|Account|Partition|State|Submit|Start|End|Timelimit|NNodes|NCPUS|NodeList"
NAMES = ("train", "md_run", "relax", "cfd", "postproc", "fft", "bench", "ensemble", "mesh", "sweep")
ODD_NAMES = ("prep|solve", "a|b|c", "cat x | sort", "50% test", "ünïcode")


@dataclass(slots=True)
class Job:
    """One job; times are epoch seconds, ``nodes`` are the positions it got."""

    number: str
    user: int
    name: str
    state: str
    submit_s: int
    run_s: int
    limit_s: int
    size: int
    start_s: int | None = None
    end_s: int | None = None
    nodes: tuple[int, ...] = ()


# --- jobs -------------------------------------------------------------------------------------------------------


def draw_jobs(random: np.random.Generator, nodes: int, days: float, load: float, mean_hours: float) -> list[Job]:
    """Jobs enough to ask for the given share of the machine, in the order of their submission."""
    wanted_s = load * nodes * (days * DAY_S + WARM_UP_S)
    jobs: list[Job] = []
    asked_s = 0.0
    number = 100_000
    while asked_s < wanted_s:
        number += int(random.integers(1, 4))
        tasks = int(random.integers(3, 40)) if random.random() < 0.03 else 1
        size = draw_size(random, nodes if tasks == 1 else max(1, nodes // 16))
        submit_s = draw_submit(random, days)
        user = int(min(random.pareto(1.1) * 3, 79))
        name = str(random.choice(ODD_NAMES if random.random() < 0.004 else NAMES))
        for task in range(tasks):
            job = draw_job(random, user, name, submit_s, size, mean_hours)
            job.number = f"{number}_{task}" if tasks > 1 else str(number)
            asked_s += job.run_s * size
            jobs.append(job)
    return sorted(jobs, key=lambda job: job.submit_s)


def draw_job(
    random: np.random.Generator, user: int, name: str, submit_s: int, size: int, mean_hours: float
) -> Job:
    """A job whose run time is log-normal and whose limit is what its user rounded up to, often far too much."""
    spread = 1.5
    run_s = random.lognormal(np.log(mean_hours * HOUR_S) - spread**2 / 2, spread)
    asked_s = run_s * (1 + random.exponential(1.2))
    limits_s = np.array([0.25, 0.5, 1, 2, 4, 8, 12, 24]) * HOUR_S
    limit_s = int(limits_s[min(np.searchsorted(limits_s, asked_s), len(limits_s) - 1)])
    state = str(random.choice(["COMPLETED", "FAILED", "CANCELLED", "TIMEOUT"], p=[0.82, 0.08, 0.05, 0.05]))
    run_s = {"FAILED": run_s * 0.3, "CANCELLED": run_s * random.random(), "TIMEOUT": limit_s}.get(state, run_s)
    if run_s >= limit_s:
        state, run_s = "TIMEOUT", limit_s
    return Job("", user, name, state, submit_s, max(int(run_s), 2), limit_s, size)


def draw_size(random: np.random.Generator, nodes: int) -> int:
    """Mostly powers of two, mostly small, now and then nearly the whole machine."""
    if random.random() < 0.002:
        return max(1, int(nodes * random.uniform(0.6, 1)))
    powers = np.arange(int(np.log2(max(2, nodes))))
    weight = 0.62**powers
    size = 2 ** int(random.choice(powers, p=weight / weight.sum()))
    return size if random.random() < 0.8 else max(1, int(size * random.uniform(0.6, 1.3)))


def draw_submit(random: np.random.Generator, days: float) -> int:
    """A time of submission: more by day than by night, fewer at weekends."""
    while True:
        time_s = random.uniform(-WARM_UP_S, days * DAY_S)
        hour, weekday = time_s % DAY_S / HOUR_S, int(time_s // DAY_S) % 7
        busy = 0.35 + 0.65 * np.exp(-(((hour - 14) / 4.5) ** 2))
        if random.random() < busy * (0.5 if weekday >= 5 else 1):
            return MONDAY_S + int(time_s)


# --- scheduler --------------------------------------------------------------------------------------------------


def schedule(jobs: list[Job], nodes: int, until_s: int) -> None:
    """Run the jobs first come, first served with EASY backfill, on the lowest free nodes; stop at the end."""
    free = list(range(nodes))
    running: list[tuple[int, int, Job]] = []
    queue: list[Job] = []
    coming = iter(jobs)
    following = next(coming, None)
    while following is not None or running:
        now_s = min(following.submit_s if following else until_s, running[0][0] if running else until_s)
        if now_s >= until_s:
            return
        while running and running[0][0] <= now_s:
            ended = heapq.heappop(running)[2]
            ended.end_s = now_s
            free = sorted((*free, *ended.nodes))
        while following is not None and following.submit_s <= now_s:
            queue.append(following)
            following = next(coming, None)
        for job in startable(queue, len(free), running, now_s):
            queue.remove(job)
            job.start_s, job.nodes, free = now_s, tuple(free[: job.size]), free[job.size :]
            heapq.heappush(running, (now_s + job.run_s, id(job), job))


def startable(queue: list[Job], free: int, running: list[tuple[int, int, Job]], now_s: int) -> list[Job]:
    """Jobs to start now: from the queue's head as far as they fit, then those that do not delay the next one."""
    started: list[Job] = []
    ends = [((job.start_s or 0) + job.limit_s, job.size) for _, _, job in running]
    position = 0
    while position < len(queue) and queue[position].size <= free:
        free -= queue[position].size
        ends.append((now_s + queue[position].limit_s, queue[position].size))
        started.append(queue[position])
        position += 1
    if position == len(queue):
        return started
    shadow_s, spare = reservation(queue[position].size, free, sorted(ends))
    for job in queue[position + 1 : position + 1 + BACKFILL_DEPTH]:
        in_time = now_s + job.limit_s <= shadow_s
        if job.size <= free and (in_time or job.size <= spare):
            free -= job.size
            spare -= 0 if in_time else job.size
            started.append(job)
    return started


def reservation(size: int, free: int, ends: list[tuple[int, int]]) -> tuple[int, int]:
    """When the queue's first job can start at the latest, and how many nodes are left over then."""
    for end_s, ending in ends:
        free += ending
        if free >= size:
            return end_s, free - size
    raise ValueError(f"a job of {size} nodes does not fit on the machine")


# --- text -------------------------------------------------------------------------------------------------------


def sacct_rows(jobs: list[Job], random: np.random.Generator, nodes: int, until_s: int) -> Iterator[str]:
    """What `sacct -a -P -S … -E …` prints of the jobs; a few have rows for their steps too."""
    yield HEADER
    width = len(str(nodes))
    for job in jobs:
        if job.end_s is not None and job.end_s < MONDAY_S:
            continue
        cancelled = job.start_s is None and random.random() < 0.3
        cancel_s = int(random.integers(job.submit_s + 1, until_s + 1)) if cancelled else None
        end_s = cancel_s if cancelled else job.end_s
        if end_s is not None and end_s < MONDAY_S:
            continue
        state = shown_state(job, cancelled)
        start = iso(cancel_s if cancelled else job.start_s)
        hosts = node_list(job.nodes, width) if job.nodes else "None assigned"
        rest = (
            f"{iso(job.submit_s)}|{start}|{iso(end_s)}|{clock(job.limit_s)}|{job.size}|{job.size * CORES}|{hosts}"
        )
        yield f"{job.number}|{job.name}|u{job.user:03d}|a{job.user % 17:02d}|batch|{state}|{rest}"
        if job.start_s is not None and random.random() < 0.03:
            for step in ("batch", "extern"):
                rest = f"{start}|{start}|{iso(job.end_s)}||1|{CORES}|{hosts}"
                yield f"{job.number}.{step}|{step}||a{job.user % 17:02d}||{state.split()[0]}|{rest}"


def shown_state(job: Job, cancelled: bool) -> str:
    """The state as sacct shows it when the log is made."""
    if cancelled or (job.end_s is not None and job.state == "CANCELLED"):
        return f"CANCELLED by {20_000 + job.user}"
    if job.start_s is None:
        return "PENDING"
    return job.state if job.end_s is not None else "RUNNING"


def swf_rows(jobs: list[Job], nodes: int) -> Iterator[str]:
    """The jobs that ended, in the Standard Workload Format, without a word on which nodes they had."""
    begin_s = min(job.submit_s for job in jobs)
    yield "; Version: 2.2"
    yield "; Computer: made up by sample_logs/generate.py"
    yield f"; UnixStartTime: {begin_s}"
    yield "; TimeZoneString: UTC"
    yield f"; MaxNodes: {nodes}"
    yield f"; MaxProcs: {nodes * CORES}"
    status = {"COMPLETED": 1, "CANCELLED": 5}
    for number, job in enumerate(jobs, 1):
        if job.start_s is None or job.end_s is None or job.end_s < MONDAY_S:
            continue
        cores, who = job.size * CORES, f"{status.get(job.state, 0)} {job.user} {job.user % 17}"
        times = f"{job.submit_s - begin_s} {job.start_s - job.submit_s} {job.run_s}"
        yield f"{number} {times} {cores} -1 -1 {cores} {job.limit_s} -1 {who} -1 1 1 -1 -1"


def iso(time_s: int | None) -> str:
    """A time as sacct prints it."""
    return "Unknown" if time_s is None else str(np.datetime64(int(time_s), "s"))


def clock(duration_s: int) -> str:
    """A limit as sacct prints it: 1-00:00:00 for a day."""
    days, rest = divmod(duration_s, DAY_S)
    text = f"{rest // HOUR_S:02d}:{rest % HOUR_S // 60:02d}:00"
    return f"{days}-{text}" if days else text


def node_list(nodes: tuple[int, ...], width: int) -> str:
    """Positions as Slurm folds them: n[001-004,017]."""
    runs: list[list[int]] = []
    for node in nodes:
        if runs and runs[-1][1] == node - 1:
            runs[-1][1] = node
        else:
            runs.append([node, node])
    texts = [f"{low + 1:0{width}d}" + (f"-{high + 1:0{width}d}" if high > low else "") for low, high in runs]
    return f"n{texts[0]}" if len(nodes) == 1 else f"n[{','.join(texts)}]"


# --- many rows, fast --------------------------------------------------------------------------------------------


def quick_rows(random: np.random.Generator, nodes: int, days: float, rows: int) -> Iterator[str]:
    """Rows without a scheduler: each job on one or two stretches of nodes, whoever else is there."""
    yield HEADER
    width = len(str(nodes))
    submit_s = np.sort(random.integers(0, int(days * DAY_S), rows)) + MONDAY_S
    start_s = submit_s + random.exponential(2 * HOUR_S, rows).astype(np.int64)
    end_s = start_s + random.lognormal(7, 1.5, rows).astype(np.int64) + 1
    submit, start, end = (time_s.astype("datetime64[s]").astype(str) for time_s in (submit_s, start_s, end_s))
    size = np.minimum(2 ** (random.geometric(0.5, rows) - 1), max(1, nodes // 4))
    first, second = random.integers(0, nodes, (2, rows))
    state = random.choice(
        ["COMPLETED", "FAILED", "CANCELLED by 20001", "TIMEOUT"], rows, p=[0.82, 0.08, 0.05, 0.05]
    )
    user = random.integers(0, 80, rows)
    for row in range(rows):
        count, low, high = int(size[row]), int(first[row]), int(second[row])
        pieces = (range(low, low + (count + 1) // 2), range(high, high + count // 2))
        # Stretches may overlap: the job has fewer nodes then.
        on = tuple(sorted({node % nodes for piece in pieces for node in piece}))
        yield (
            f"{100_000 + row}|{NAMES[row % len(NAMES)]}|u{user[row]:03d}|a{user[row] % 17:02d}|batch|{state[row]}"
            f"|{submit[row]}|{start[row]}|{end[row]}|1-00:00:00|{len(on)}|{len(on) * CORES}"
            f"|{node_list(on, width)}"
        )


def broken(rows: Iterator[str], every: int) -> Iterator[str]:
    """The same rows with every n-th below the header broken, each time in another way."""
    for number, row in enumerate(rows):
        if number == 0 or number % every:
            yield row
            continue
        fields = row.split("|")
        match number // every % 5:
            case 0:
                yield row[: len(row) // 2]
                continue
            case 1:
                fields[-6] = "2024-06-31T25:61:00"
            case 2:
                fields[-5], fields[-6] = "2001-01-01T00:00:00", fields[-5]
            case 3:
                fields[-1] = "n[001-"
            case _:
                fields[-3] = "many"
        yield "|".join(fields)


# --- command line -----------------------------------------------------------------------------------------------


def make_log(options: argparse.Namespace) -> Iterator[str]:
    """The lines of the log that the options ask for."""
    random = np.random.default_rng(options.seed)
    if options.rows:
        lines = quick_rows(random, options.nodes, options.days, options.rows)
    else:
        until_s = MONDAY_S + int(options.days * DAY_S)
        jobs = draw_jobs(random, options.nodes, options.days, options.load, options.mean_hours)
        # SWF has no row for a job that still runs: there, all are run to their end.
        swf = options.format == "swf"
        schedule(jobs, options.nodes, sys.maxsize if swf else until_s)
        lines = swf_rows(jobs, options.nodes) if swf else sacct_rows(jobs, random, options.nodes, until_s)
    return broken(lines, options.broken_every) if options.broken_every else lines


def write(lines: Iterator[str], output: str) -> None:
    """Write the lines to a file, gzipped if its name ends so, or to standard output for ``-``."""
    if output == "-":
        sys.stdout.writelines(f"{line}\n" for line in lines)
        return
    data = "".join(f"{line}\n" for line in lines).encode()
    # Neither the time nor the file's name goes into the gzip header: the same seed gives the same bytes.
    Path(output).write_bytes(gzip.compress(data, 9, mtime=0) if output.endswith(".gz") else data)


def main() -> None:
    """Read the command line and write the log."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", type=int, default=1, help="seed of the random numbers")
    parser.add_argument("--days", type=float, default=7, help="length of the log, from 2024-06-03 on")
    parser.add_argument("--nodes", type=int, default=64, help="nodes of the machine")
    parser.add_argument("--load", type=float, default=0.95, help="share of the machine that the jobs ask for")
    parser.add_argument("--mean-hours", type=float, default=0.8, help="mean run time, before limits cut it")
    parser.add_argument("--format", choices=["sacct", "swf"], default="sacct", help="what to write")
    parser.add_argument("--rows", type=int, help="write that many sacct rows fast, without a scheduler")
    parser.add_argument("--broken-every", type=int, help="break every n-th row")
    parser.add_argument("--output", default="-", help="file (.gz is gzipped) or - for standard output")
    options = parser.parse_args()
    if options.rows and options.format == "swf":
        parser.error("--rows writes sacct rows only")
    write(make_log(options), options.output)


if __name__ == "__main__":
    main()
