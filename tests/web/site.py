"""A daemon's directory as the page finds it: what was published, and the database."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from sqlalchemy import insert

from freetrain.config import Config
from freetrain.core.decision import Decision, Status
from freetrain.core.harm import Harm
from freetrain.core.known_trainer import KnownTrainer, TrainerState
from freetrain.core.place import Place
from freetrain.core.problem import Problem
from freetrain.core.throughput import Observation
from freetrain.core.trainer import Trainer
from freetrain.daemon.reports.status import LookStatus, NodeGroup, StatusFile, TrainerStatus
from freetrain.store import NewRun, Store
from freetrain.store.engine import for_writing, make_engine
from freetrain.store.ledger import DAEMON_COMMAND
from freetrain.store.store import DAEMONS_STORE
from freetrain.store.tables import FragmentRow, LiveTrainerRow
from freetrain.web.identity import Identities

LOOK = LookStatus(
    time_s=0.0,
    took_s=0.25,
    idle_nodes=6,
    nodes=(
        NodeGroup("n[1-3]", "lent", "60000101", until_s=0.0),
        NodeGroup("n4", "asked for", "60000101"),
        NodeGroup("n[5-6]", "free"),
        NodeGroup("n7", "not lent", why="job 9 runs here", verdict="used by the site"),
        NodeGroup("n8", "not lent", why="job 10 runs here", verdict="used by the site"),
        NodeGroup("n[9-10]", "not lent", why="kept in reserve for the site"),
    ),
    trainers=(
        TrainerStatus("102", "games", "active", why="no idle nodes fit it"),
        TrainerStatus(
            "60000101", "news", "active", lent="n[1-3]", asked="n4", samples_done=4e5, ends={"preempted": 2}
        ),
    ),
)


class Site:
    """A machine of ten nodes with a daemon, which is this process."""

    def __init__(self, directory: Path, mode: str = "act", **web: str) -> None:
        self.directory = directory
        state = {"directory": str(directory), "stop_file": str(directory / "STOP")}
        self.config = Config.model_validate({"lend": {"mode": mode}, "state": state, "web": web})

    @property
    def identities(self) -> Identities:
        """What finds out who asks."""
        return Identities(self.config.web, self.directory)

    def publishes(
        self, look: LookStatus | None = LOOK, ago_s: float = 3.0, is_private: bool = False
    ) -> StatusFile:
        """The daemon has looked; lent nodes are expected to be wanted in an hour."""
        at_s = time.time() - ago_s
        file = StatusFile(self.directory, 10.0, is_private, lambda: at_s)
        if look is not None:
            nodes = tuple(
                replace(group, until_s=at_s + 3600) if group.until_s == 0.0 else group for group in look.nodes
            )
            look = replace(look, time_s=at_s, nodes=nodes)
        file.looked(self.config, look)
        return file

    @property
    def path(self) -> Path:
        """Of the database."""
        return self.directory / DAEMONS_STORE

    def remembers(self, ago_s: float = 600.0) -> None:
        """The database has a little of everything."""
        now_s = time.time()
        store = Store.open(self.path)
        run = NewRun(DAEMON_COMMAND, "1", {}, now_s, now_s, now_s, ("n1", "n2", "n3"))
        with store.begin_run(run, batch_decisions=1) as journal:
            journal.record(*a_decision(now_s - ago_s))
        ledger = store.ledger()
        tag = "freetrain:name=resnet,min=1,max=4,target=1000000"
        seen = (Observation(1, 100.0), Observation(2, 180.0), Observation(4, 320.0))
        ledger.save_trainers(
            [KnownTrainer("60000101", "news", tag, TrainerState.ACTIVE, now_s, observations=seen)]
        )
        ledger.record_command(now_s - ago_s, ["scontrol"], "lend n2 to 60000101", "1:1", "done")
        ledger.record_command(now_s - ago_s, ["scontrol"], "lend n3 to 60000101", "1:1", "done")
        ledger.record_harm(Harm("77", now_s - ago_s, 1.0, 2.5, 0.5, ("60000101_0",)))
        self.lent([("n1", "60000101", now_s - 7200, None), ("n2", "60000101", now_s - 1800, None)])

    def lent(self, stays: list[tuple[str, str, float, float | None]]) -> None:
        """Fragments, many at once."""
        rows = [
            {
                "job": f"{trainer}_{row}", "trainer": trainer, "node": node, "limit_s": 3600.0, "asked_s": start_s,
                "started_s": start_s, "ended_s": end_s, "state": "running" if end_s is None else "ended",
                "end": None if end_s is None else "released", "decision": "1:1",
            }
            for row, (node, trainer, start_s, end_s) in enumerate(stays)
        ]  # fmt: skip
        with for_writing(make_engine(self.path)).begin() as connection:
            connection.execute(insert(FragmentRow), rows)

    def knows(self, trainers: list[KnownTrainer]) -> None:
        """Trainings, many at once."""
        rows = [
            {
                "id": trainer.id, "owner": trainer.owner, "account": "", "tag": trainer.tag,
                "state": str(trainer.state),
                "note": "", "first_seen_s": trainer.first_seen_s, "failures_in_a_row": 0,
                "rests_until_s": 0.0, "samples_done": trainer.samples_done, "progress_bytes": 0,
                "observations": [[seen.nodes, seen.samples_per_s, seen.weight] for seen in trainer.observations],
                "costs": {},
            }
            for trainer in trainers
        ]  # fmt: skip
        with for_writing(make_engine(self.path)).begin() as connection:
            connection.execute(insert(LiveTrainerRow), rows)


def a_decision(at_s: float) -> tuple[Problem, Decision]:
    """Trainer 60000101 has a node and gets two more."""
    trainer = Trainer("60000101", ((1, 100.0), (4, 320.0)))
    problem = Problem(at_s, (Place("n1", None, "60000101"), Place("n2"), Place("n3")), (trainer,))
    placement = {"60000101": ("n1", "n2", "n3")}
    return problem, Decision(Status.OPTIMAL, 3.0, placement, "columns", 0.0, 0.004, ("two nodes were idle",))
