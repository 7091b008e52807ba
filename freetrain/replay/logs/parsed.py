"""Jobs as every job-log reader hands them on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

RUN_SCHEMA: Mapping[str, type[pl.DataType]] = {
    "file": pl.Int32,
    "line": pl.Int64,
    "job": pl.String,
    "submit_s": pl.Float64,
    "start_s": pl.Float64,
    "end_s": pl.Float64,
    "limit_s": pl.Float64,
    "nodes": pl.Int64,
    "cores": pl.Int64,
    "partition": pl.String,
    "node_list": pl.String,
}
TIMES = ("submit_s", "start_s", "end_s")


@dataclass(frozen=True, slots=True)
class MachineSize:
    """What an SWF header says about the machine."""

    nodes: int
    cores_per_node: int


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """One job log.

    Attributes:
        runs: a row per run of a job, columns as in ``RUN_SCHEMA``. ``end_s`` is inf for one that has not ended,
            ``limit_s`` for one without a time limit, or of which none is known; ``submit_s``, ``nodes`` and
            ``cores`` are null and ``node_list`` is empty where the log does not say.
        seen: ``TIMES`` of every sound row, jobs that never started among them: they too tell what time the log
            covers. Null where a row has none.
        size: the machine as the log's header has it.
        notes: sentences for the report.
    """

    runs: pl.DataFrame
    seen: pl.DataFrame
    size: MachineSize | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Proof:
    """What the rows prove about the time that the log covers.

    Attributes:
        earliest_start_s: when the first job started.
        latest_end_s: when the last one ended, or started if that is later.
        earliest_end_s: the first end. A dump from X on holds no row that ended before X.
        latest_submit_s: the last submission (start, where there is none). None is after the dump's end.
    """

    earliest_start_s: float
    latest_end_s: float
    earliest_end_s: float
    latest_submit_s: float


def prove(seen: pl.DataFrame) -> Proof | None:
    """The time that the rows cover; None if no job started."""
    start_s, end_s, submit_s = (_known(seen[name]) for name in ("start_s", "end_s", "submit_s"))
    if start_s.is_empty():
        return None
    return Proof(
        earliest_start_s=_low(start_s),
        latest_end_s=max(_high(start_s), _high(end_s) if len(end_s) else _high(start_s)),
        earliest_end_s=_low(end_s) if len(end_s) else _low(start_s),
        latest_submit_s=_high(submit_s if len(submit_s) else start_s),
    )


def without_repeats(runs: pl.DataFrame) -> pl.DataFrame:
    """Each run once: dumps that overlap in time repeat rows, and one that ran then may have ended since."""
    if not runs.select(pl.struct("job", "start_s").is_duplicated().any()).item():
        return runs
    key = ["job", "start_s", "nodes", "node_list"]
    return runs.sort("end_s", maintain_order=True).unique(key, keep="first", maintain_order=True)


def _known(times: pl.Series) -> pl.Series:
    return times.filter(times.is_not_null() & times.is_finite())


def _low(times: pl.Series) -> float:
    return float(times.to_numpy().min())


def _high(times: pl.Series) -> float:
    return float(times.to_numpy().max())
