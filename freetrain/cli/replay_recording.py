"""The record of a replay in the store: what was asked, each decision, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from freetrain import __version__
from freetrain.cli.output import command_line
from freetrain.cli.replay_document import daemon_document, share_document
from freetrain.core.holes import SECONDS_PER_HOUR, Holes
from freetrain.replay.logs import SiteLog
from freetrain.replay.outcome import outcome_to_dict
from freetrain.replay.study import Study
from freetrain.replay.trainer_run import Loss, TrainerRun
from freetrain.store import NewRun, RunJournal, Store, TrainerRecord, default_store_path


class Recorder:
    """Keeps one replay in the store.

    Args:
        path: the store's file; None: the usual one.
    """

    def __init__(self, path: Path | None) -> None:
        self._store = Store.open(path or default_store_path())
        self._journal: RunJournal

    @contextmanager
    def journal(self, holes: Holes, settings: Mapping[str, Any]) -> Iterator[RunJournal]:
        """Begin a run: where its decisions go, for as long as the replay takes."""
        run = NewRun(
            command_line(),
            __version__,
            dict(settings),
            time.time(),
            holes.from_s,
            holes.until_s,
            holes.node_names,
        )
        with self._store.begin_run(run) as self._journal:
            yield self._journal

    def finish(self, done: Study, log: SiteLog) -> int:
        """Keep what came of it; the run's number."""
        as_daemon = done.as_daemon and daemon_document(done.as_daemon)
        shares = share_document(log, done.on_shares)
        estimate = done.estimate and asdict(done.estimate)
        played = {"as_daemon": as_daemon, "estimate": estimate, "shares": shares}
        outcome = {**outcome_to_dict(done.outcome), **played}
        self._journal.finish(outcome, [_trainer_record(run) for run in done.record.runs], time.time())
        return self._journal.run_id


def _trainer_record(run: TrainerRun) -> TrainerRecord:
    rescales = run.losses[Loss.SCALE_UP] + run.losses[Loss.SCALE_DOWN]
    return TrainerRecord(
        run.trainer.id,
        run.started_s,
        run.completed_s,
        run.samples,
        run.node_s / SECONDS_PER_HOUR,
        run.evicted_nodes,
        rescales,
    )
