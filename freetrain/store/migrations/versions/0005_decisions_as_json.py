"""Decisions are kept as compressed JSON; before, they were arrays of numpy's in a format of freetrain's own."""

from __future__ import annotations

import json
import zlib
from itertools import pairwise
from typing import Any

import numpy as np
import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

_DECISIONS = sa.table(
    "decisions",
    sa.column("run_id", sa.Integer()),
    sa.column("number", sa.Integer()),
    sa.column("problem", sa.LargeBinary()),
    sa.column("placement", sa.LargeBinary()),
)


def upgrade() -> None:
    """Write each decision again; a damaged one stays as it is, and is refused when it is asked for."""
    connection = op.get_bind()
    keys = connection.execute(sa.select(_DECISIONS.c.run_id, _DECISIONS.c.number)).all()
    node_names = dict(map(tuple, connection.execute(sa.text("SELECT id, node_names FROM runs"))))
    for run_id, number in keys:
        this = (_DECISIONS.c.run_id == run_id) & (_DECISIONS.c.number == number)
        row = connection.execute(sa.select(_DECISIONS.c.problem, _DECISIONS.c.placement).where(this)).one()
        try:
            problem, placement = _converted(row.problem, row.placement, node_names[run_id])
        except (zlib.error, ValueError, LookupError):
            continue
        connection.execute(sa.update(_DECISIONS).where(this).values(problem=problem, placement=placement))


def _converted(problem: bytes, placement: bytes, node_names: bytes) -> tuple[bytes, bytes]:
    header, (ends_s, lengths, pair_ends, pair_seats, steps) = _split(problem)
    moves, (move_lengths, changes) = _split(placement)
    names = json.loads(zlib.decompress(node_names))
    held, index = np.repeat(pair_seats, lengths).astype(int), np.repeat(pair_ends, lengths).astype(int)
    owner = np.repeat(changes, move_lengths).astype(int) ^ held
    there = np.flatnonzero(index)
    odd = header.get("odd_nodes", [])
    ends = [*(None if np.isnan(end_s) else end_s for end_s in ends_s.tolist()), *(end_s for _, end_s, _ in odd)]
    holders = [*held[there].tolist(), *(holder or 0 for _, _, holder in odd)]
    owners = [*owner[there].tolist(), *(0 for _ in odd)]
    others = [(int(owner[at]), names[at]) for at in np.flatnonzero((index == 0) & (owner > 0)).tolist()]
    for trainer, strays in moves.get("odd_nodes", {}).items():
        for name in strays:
            known = [names[at] for at in there.tolist()] + [node for node, _, _ in odd]
            if name in known:
                owners[known.index(name)] = trainer
            else:
                others.append((trainer, name))
    moved = [at for at, (before, after) in enumerate(zip(holders, owners, strict=True)) if before != after]
    document = {
        "horizon_s": header["horizon_s"],
        "objective": header["objective"],
        "trainers": steps.tolist(),
        "redefined": header.get("redefined", []),
        "nodes": _steps(there.tolist()),
        "unnumbered": [name for name, _, _ in odd],
        "ends_s": ends,
        "end": [*(index[there] - 1).tolist(), *(len(ends) - len(odd) + at for at in range(len(odd)))],
        "holder": holders,
    }
    plan = {"moved": _steps(moved), "to": [owners[at] for at in moved], "others": others}
    return _compressed(document), _compressed(plan)


def _split(frame: bytes) -> tuple[dict[str, Any], list[Any]]:
    if frame[:1] != b"\x01":
        raise ValueError("another format")
    data = zlib.decompress(frame[1:])
    start = 4 + int.from_bytes(data[:4], "little")
    header, shapes = json.loads(data[4:start])
    arrays = []
    for kind, length in shapes:
        arrays.append(np.frombuffer(data, dtype=kind, count=length, offset=start))
        start += arrays[-1].nbytes
    return header, arrays


def _steps(numbers: list[int]) -> list[int]:
    return [later - earlier for earlier, later in pairwise([0, *numbers])]


def _compressed(document: dict[str, Any]) -> bytes:
    return b"\x02" + zlib.compress(json.dumps(document, separators=(",", ":")).encode())
