"""A database with a row in each table, as each release wrote it: ``released/VERSION.db.gz``.

What is written here and in ``samples`` lies in the files of earlier releases: it may be added to, not changed.
With the code of a release, ``python -m tests.store.release`` writes its file.
"""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

from freetrain import __version__
from freetrain.core.fragment import End, Fragment, FragmentState
from freetrain.core.harm import Harm
from freetrain.core.known_trainer import KnownTrainer, TrainerState
from freetrain.core.throughput import Observation
from freetrain.store import Store
from freetrain.store.schema import back_up
from tests.store.samples import OUTCOME, PROBLEM, RECORDS, decide, new_run

RELEASED = Path(__file__).with_name("released")

FRAGMENTS = [
    Fragment("7_1", "7", "n1", FragmentState.ENDED, 900.0, 3600.0, 905.5, 950.25, End.PREEMPTED, "1:1", id=1),
    Fragment("7_2", "7", "n2", FragmentState.RUNNING, 910.0, 3600.0, 915.0, id=2),
]
TRAINER = KnownTrainer(
    "7",
    "news",
    "freetrain:min=1",
    TrainerState.RESTING,
    100.0,
    note="rests for a while",
    failures_in_a_row=2,
    rests_until_s=1060.0,
    samples_done=123456.5,
    progress_bytes=789,
    observations=(Observation(2, 50.0, 5.0),),
    account="physics",
)
COMMAND = (920.0, ["scontrol", "release", "7_1"], "grow 7", "1:1", "done", "root (sudo by anna)")
HARM = Harm("9", 1000.0, 0.5, 1.5, 0.25, ("7_1", "7_2"))
STAYS = (86400.5, 12.25)


def write_all(path: Path) -> None:
    """A database with all of it."""
    store = Store.open(path)
    with store.begin_run(new_run()) as run:
        run.record(PROBLEM, decide())
        run.finish(OUTCOME, RECORDS, 1.8e9)
    ledger = store.ledger()
    ledger.save_fragments(FRAGMENTS)
    ledger.save_trainers([TRAINER])
    time_s, argv, why, decision, result, actor = COMMAND
    ledger.record_command(time_s, argv, why, decision, result, actor)
    ledger.record_harm(HARM)
    ledger.save_stays("batch", *STAYS)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        write_all(Path(folder) / "freetrain.db")
        back_up(Path(folder) / "freetrain.db", Path(folder) / "whole.db")
        whole = (Path(folder) / "whole.db").read_bytes()
    (RELEASED / f"{__version__}.db.gz").write_bytes(gzip.compress(whole, mtime=0))
