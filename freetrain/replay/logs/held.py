"""Memory and GPUs that jobs hold, from sacct's lists of resources, as ``cpu=64,mem=1000G,gres/gpu=4``."""

from __future__ import annotations

import re

import polars as pl

from freetrain.replay.logs.distinct import gathered_by
from freetrain.replay.logs.parsed import MOST_COUNTED

_MIB = 2.0**20
_UNITS = {"K": _MIB / 1024, "M": _MIB, "G": _MIB * 1024, "T": _MIB * 1024**2, "P": _MIB * 1024**3}
_MEMORY = r"(?:^|,)\s*mem=([\d.]+)([KMGTP]?)"
_GPUS = r"gres/gpu[:=][^,\s]*"
_SHARDS = "gres/shard"
_MPS = r"gres/mps(?::[^=,\s]+)?=(\d+)"
_MPS_OF_A_GPU = 100
"""As Slurm counts it unless gres.conf says otherwise."""
_ONE_KIND = re.compile(r"gres/gpu(?::([^=]+))?=(\d+)")


def add_held(rows: pl.DataFrame) -> pl.DataFrame:
    """Add ``memory_bytes``, ``gpus``, ``gpu_types``, ``shards`` and ``mps`` to rows with the column ``tres``.

    A list that names no GPUs is of a job that has none; where there is no list, nothing is known. Memory without a
    unit is in MiB. GPUs that are listed both by type and without one are the same; those of a type are counted as
    Slurm names it, instances of MIG too.
    """
    distinct = rows["tres"].unique()
    return rows.with_columns(gathered_by(rows["tres"], distinct, _held(distinct.to_frame())))


def _held(lists: pl.DataFrame) -> pl.DataFrame:
    said = pl.col("tres").str.strip_chars() != ""
    number, unit = (pl.col("tres").str.extract(_MEMORY, group) for group in (1, 2))
    held = lists.select(
        (number.cast(pl.Float64, strict=False) * unit.replace_strict(_UNITS, default=_MIB)).alias("memory_bytes"),
        pl.when(said).then(pl.col("tres").str.contains(_SHARDS, literal=True)).alias("shards"),
        pl.when(said).then(pl.col("tres").str.extract(_MPS).cast(pl.Int64, strict=False)).alias("mps"),
        pl.when(said).then(pl.col("tres").str.extract_all(_GPUS).list.join(",")).alias("gpu_text"),
    )
    known = {text: _gpus(text) for text in held["gpu_text"].drop_nulls().unique().to_list()}
    counts = {text: count for text, (count, _) in known.items() if count <= MOST_COUNTED}
    types = {text: names for text, (_, names) in known.items()}
    return (
        held.with_columns(
            _looked_up("gpu_text", counts, pl.Int64).alias("whole_gpus"),
            _looked_up("gpu_text", types, pl.String).fill_null("").alias("gpu_types"),
        )
        .with_columns(
            (pl.col("whole_gpus") + -(-pl.col("mps").fill_null(0) // _MPS_OF_A_GPU)).alias("gpus"),
            (pl.col("mps") > 0).alias("mps"),
        )
        .drop("gpu_text", "whole_gpus")
    )


def _looked_up(column: str, values: dict[str, int] | dict[str, str], kind: type[pl.DataType]) -> pl.Expr:
    return pl.col(column).replace_strict(values, default=None, return_dtype=kind)


def _gpus(text: str) -> tuple[int, str]:
    """How many GPUs these entries are, and their types, joined by commas."""
    kinds = {name: int(count) for name, count in _ONE_KIND.findall(text)}
    untyped = kinds.pop("", 0)
    return max(untyped, sum(kinds.values())), ",".join(sorted(name for name, count in kinds.items() if count))
