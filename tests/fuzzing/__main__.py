"""Runs parsers on damaged text, and prints what came of it; ends with 1 where one of them failed."""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from tests.fuzzing.running import GROUPS, MOST_S, Record, for_seconds, parsers, run_here


def main(arguments: Sequence[str]) -> int:
    """Run the parsers that the command names."""
    options = _options(arguments)
    records: dict[str, Record] = {}
    for name in _chosen(options.parsers):
        count = options.trials
        numbers = (
            for_seconds(options.first, options.seconds)
            if count is None
            else itertools.islice(itertools.count(options.first), count)
        )
        records[name] = run_here(name, numbers, Path(options.folder))
        if not options.json:
            print(_row(name, records[name]), flush=True)
    if options.json:
        print(json.dumps({name: asdict(record) for name, record in records.items()}))
    else:
        print(_sum(records))
    return int(any(record.crashes or record.slowest_s > MOST_S for record in records.values()))


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzzing", description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="processor time for each parser")
    parser.add_argument("--trials", type=int, help="so many for each parser, instead of seconds")
    parser.add_argument("--first", type=int, default=0, help="number of the first trial, which is its seed")
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="where files are written")
    parser.add_argument("--json", action="store_true", help="print the records as JSON")
    parser.add_argument("parsers", nargs="*", metavar="PARSER", help="a name or the beginning of names; all")
    return parser.parse_args(arguments)


def _chosen(beginnings: Sequence[str]) -> list[str]:
    groups = {beginning.partition(" ")[0] for beginning in beginnings} or set(GROUPS)
    names = [name for group in GROUPS if group in groups for name in parsers(group)]
    chosen = [name for name in names if not beginnings or name.startswith(tuple(beginnings))]
    if not chosen:
        raise SystemExit(f"There is no such parser; there are {', '.join(names or GROUPS)}.")
    return chosen


def _row(name: str, record: Record) -> str:
    slowest = f"slowest {record.slowest_s:.3f} s ({record.slowest_seed})"
    crashes = "".join(f"\n    {seed}: {error[:300]}" for seed, error in record.crashes)
    return f"{name:22} {record.trials:9,} inputs {record.refused:9,} refused  {slowest}{crashes}"


def _sum(records: Mapping[str, Record]) -> str:
    trials = sum(record.trials for record in records.values())
    crashes = sum(len(record.crashes) for record in records.values())
    return f"{len(records)} parsers, {trials:,} inputs, {crashes} crashes"


if __name__ == "__main__":
    logging.disable()
    sys.exit(main(sys.argv[1:]))
