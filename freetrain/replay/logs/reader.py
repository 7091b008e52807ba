"""Reading a site's log from its files to the holes of the machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import polars as pl

from freetrain.errors import InputError
from freetrain.replay.logs.busy import (
    BusyTimes,
    about_empty_hours,
    add_always_busy,
    closed_in_hours,
    find_empty_hours,
    select_nodes,
    take_out,
    with_failures,
)
from freetrain.replay.logs.jobs import LoggedUse, jobs_on_nodes, logged_jobs, settle_window
from freetrain.replay.logs.machine import read_machine
from freetrain.replay.logs.model import ReadOptions, SiteLog
from freetrain.replay.logs.nodelists import MAX_NODES
from freetrain.replay.logs.other_logs import busy_times, read_node_events, read_swf
from freetrain.replay.logs.parsed import ParsedFile, RowTally
from freetrain.replay.logs.sacct_jobs import read_sacct
from freetrain.replay.logs.shares import about_shares, find_idle_shares, find_places
from freetrain.replay.logs.source import LogFormat, detect_format, display_name, is_stdin, read_pieces
from freetrain.replay.logs.times import find_zone
from freetrain.replay.logs.traces import PARQUET, is_json, rows_of_json, rows_of_parquet, with_sacct_header
from freetrain.replay.logs.window import LogWindow, choose_window, time_covered_by_events

ReadProgress = Callable[[str], None]


@dataclass(slots=True)
class _Source:
    """A file of the log, and how it is to be read; its text can be gone through once, unless it is kept."""

    name: str
    pieces: Iterable[bytes]
    format: LogFormat
    options: ReadOptions


def read_site_log(
    paths: Sequence[Path], options: ReadOptions, progress: ReadProgress = lambda stage: None
) -> SiteLog:
    """Read a log, in one file or several (``-``: standard input), and find the machine's holes.

    Raises:
        InputError: if there is no log in the files, or it does not say enough to find holes.
    """
    _check(paths, options)
    if (header := options.trace.header) and not options.columns:
        options = replace(options, columns=tuple(options.trace.renamed(header, "The format")), delimiter=",")
    sources = [_open(path, options) for path in paths]
    kind = _common_format(sources, options)
    tally = RowTally(tuple(source.name for source in sources), options.strict)
    read = _read_events if kind is LogFormat.NODE_EVENTS else _read_jobs
    try:
        use = read(sources, options, tally, progress)
        tally.stop_if_strict()
    finally:
        if options.rejects is not None:
            tally.write_rejects(options.rejects, [b"".join(source.pieces) for source in sources])
    return _site_log(use, kind, options, tally, progress)


def _site_log(
    use: LoggedUse, kind: LogFormat, options: ReadOptions, tally: RowTally, progress: ReadProgress
) -> SiteLog:
    progress("finding holes")
    window = choose_window(use.proof, options.from_s, options.until_s)
    busy = _busy_times(use, window, options, tally)
    if options.failures is not None:
        busy = with_failures(busy, window, options.failures, tally)
    looked_at, whole = busy, busy.holes(window)
    holes = whole
    if options.only_nodes is not None:
        looked_at = select_nodes(busy, options.only_nodes, tally)
        holes = looked_at.holes(window)
    empty = find_empty_hours(whole, holes)
    if empty is not None and options.skip_empty_hours:
        empty = replace(empty, left_out=True)
        busy, looked_at = closed_in_hours(busy, empty), closed_in_hours(looked_at, empty)
        holes = looked_at.holes(window)
    if empty is not None:
        (tally.warnings if empty.matter else tally.notes).append(about_empty_hours(empty))
    shares = None
    if use.placed is not None and use.sizes is not None:
        shares = find_idle_shares(use.placed, use.sizes, busy, whole, options.task)
    if shares is not None:
        shares = shares.of(holes.node_names)
        tally.notes += about_shares(shares)
    rows, placed = tally.count(), use.placed
    holes = replace(holes, kind_of=use.kind_of)
    return SiteLog(
        holes=holes,
        rows=rows,
        format=str(kind),
        packed=use.packed,
        notes=tuple(tally.notes),
        jobs=rows.used if placed is not None else 0,
        logged=logged_jobs(placed, holes, options.task is not None) if placed is not None else None,
        warnings=tuple(tally.warnings),
        empty=empty,
        machine=use.name,
        timezone=options.timezone,
        shares=shares,
        places=find_places(shares.room, holes) if shares is not None and shares.room is not None else None,
    )


def _busy_times(use: LoggedUse, window: LogWindow, options: ReadOptions, tally: RowTally) -> BusyTimes:
    if use.placed is None:
        tally.notes += use.proof.notes
        tally.warn_if_many_bad()
        return use.busy
    # What the figures are about comes first.
    tally.notes[:0] = window.notes
    settle_window(use.placed, use.packed, window, tally)
    return take_out(use.busy, window, options, tally)


def _check(paths: Sequence[Path], options: ReadOptions) -> None:
    find_zone(options.timezone)
    if not paths:
        raise InputError("No log was given.", "Name a file, or - for standard input.")
    if options.nodes is not None and options.machine is not None:
        raise InputError("--nodes and --machine both say what the machine is.", "Give one of them.")
    if options.nodes is not None and not 1 <= options.nodes <= MAX_NODES:
        raise InputError(f"No machine has {options.nodes:,} nodes.", f"Give --nodes from 1 to {MAX_NODES:,}.")
    if options.from_s is not None and options.until_s is not None and options.until_s <= options.from_s:
        raise InputError("The window is empty: --until is not after --from.", "Give a later --until.")


def _open(path: Path, options: ReadOptions) -> _Source:
    name = display_name(path)
    begun = read_pieces(path)
    head = next(begun, b"")
    pieces: Iterator[bytes] = chain([head], begun)
    if not is_stdin(path):
        # It is opened again when its turn comes: of thousands of files not all can be open at a time.
        begun.close()
        pieces = read_pieces(path)
    as_text = _in_sacct_columns(path, head, pieces, options, name)
    if as_text is None:
        kind = detect_format(head, name, bool(options.columns), options.delimiter)
    else:
        # The text was given a header in sacct's words.
        kind, pieces, options = LogFormat.SACCT, as_text, replace(options, columns=(), delimiter=None)
    # All of the text is kept where the text of bad rows is wanted.
    return _Source(name, pieces if options.rejects is None else list(pieces), kind, options)


def _in_sacct_columns(
    path: Path, head: bytes, pieces: Iterator[bytes], options: ReadOptions, name: str
) -> Iterator[bytes] | None:
    """The text of a file that names its columns in a form of its own, with sacct's header; None: it has that."""
    trace = options.trace
    if head.startswith(PARQUET):
        return rows_of_parquet(path, trace, name)
    if is_json(head):
        return rows_of_json(pieces, trace, name)
    if not trace.columns or trace.header:
        return None
    # What its first lines hold besides the columns must make a header, too.
    detect_format(next(with_sacct_header([head], trace, name)), name, False, options.delimiter)
    return with_sacct_header(pieces, trace, name)


def _common_format(sources: Sequence[_Source], options: ReadOptions) -> LogFormat:
    """The format of all files, in which each of the options has a meaning."""
    first, kind = sources[0], sources[0].format
    for source in sources:
        if source.format is not kind:
            raise InputError(
                f"{first.name} is a log in the format {kind}, {source.name} one in {source.format}.",
                "Give files of one format at a time.",
            )
    unfit = {
        "--cluster": options.cluster is not None and kind is not LogFormat.SACCT,
        "--ignore-partition": bool(options.ignore_partitions) and kind is not LogFormat.SACCT,
        "--ignore-account": bool(options.ignore_accounts) and kind is not LogFormat.SACCT,
        "--node-states": options.node_states is not None and kind is LogFormat.NODE_EVENTS,
        "--reservations": options.reservations is not None and kind is LogFormat.NODE_EVENTS,
    }
    for name, is_unfit in unfit.items():
        if is_unfit:
            raise InputError(f"{name} has no meaning for a log in the format {kind}.", "Leave it out.")
    return kind


def _read_jobs(sources: list[_Source], options: ReadOptions, tally: RowTally, progress: ReadProgress) -> LoggedUse:
    files: list[ParsedFile] = []
    for number, source in enumerate(sources):
        progress(f"reading {source.name}")
        if source.format is LogFormat.SWF:
            files.append(read_swf(source.pieces, number, tally))
        else:
            files.append(read_sacct(source.pieces, number, source.options, tally))
        if options.rejects is None:
            # The text is let go of: only rejects would be looked up in it.
            source.pieces = ()
    tally.stop_if_strict()
    progress("placing jobs on nodes")
    return jobs_on_nodes(files, options, tally)


def _read_events(
    sources: list[_Source], options: ReadOptions, tally: RowTally, progress: ReadProgress
) -> LoggedUse:
    progress("reading node events")
    events = pl.concat(
        read_node_events(source.pieces, number, options.timezone, tally) for number, source in enumerate(sources)
    )
    tally.stop_if_strict()
    tally.stop_if_mostly_bad()
    if events.is_empty():
        raise InputError(f"There is no event in the log: {tally.summary()}.", "Check that it is the right file.")
    busy = busy_times(events, tally)
    total = options.nodes
    if options.machine is not None:
        total = len(read_machine(options.machine).node_names)
    return LoggedUse(add_always_busy(busy, total, tally), time_covered_by_events(events))
