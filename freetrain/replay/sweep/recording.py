"""Sweeps in the store: each replay is a run without decisions, found again by its key."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from freetrain.replay.sweep.doing import Finished
from freetrain.replay.sweep.spec import Sweep
from freetrain.store import NewRun, RunStatus, RunSummary, Store


def known(store: Store, sweep: Sweep) -> dict[str, RunSummary]:
    """The sweep's replays that are in the store, by their keys; of several the newest."""
    keys = {cell.key for cell in sweep.cells}
    found: dict[str, RunSummary] = {}
    for run in store.runs():
        key = run.settings.get("cell")
        if run.status is RunStatus.COMPLETE and key in keys:
            found.setdefault(key, run)
    return found


def record(store: Store, sweep: Sweep, done: Finished, now_s: float) -> None:
    """Keep the outcome of a replay.

    Args:
        store: where.
        sweep: to which it belongs.
        done: the replay; it has not failed.
        now_s: wall time, UTC epoch seconds.
    """
    cell, document = done.cell, done.document
    assert document is not None
    settings = {
        "sweep": sweep.name,
        "cell": cell.key,
        "number": cell.number,
        "varied": dict(cell.labels),
        **document["settings"],
    }
    log = document["log"]
    command = shlex.join(["freetrain", "replay", *cell.arguments])
    run = NewRun(
        command, document["version"], settings, now_s, log["from_s"], log["until_s"], (), node_count=log["nodes"]
    )
    with store.begin_run(run) as journal:
        journal.finish(_outcome(document), (), now_s)


def _outcome(document: Mapping[str, Any]) -> dict[str, Any]:
    more = {name: document[name] for name in ("as_daemon", "shares", "worth", "wall_s")}
    return {**document["outcome"], **more}
