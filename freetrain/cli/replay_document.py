"""What ``freetrain replay --json`` prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from freetrain import __version__
from freetrain.config import Prices
from freetrain.replay.logs import SiteLog
from freetrain.replay.outcome import outcome_to_dict, without_empty_hours
from freetrain.replay.share_outcome import LentShares, lent_of, share_outcome, share_rows
from freetrain.replay.study import DaemonStudy, Study
from freetrain.replay.worth import Worth, worth_of

RESULT_FORMAT = "freetrain-replay/1"


@dataclass(frozen=True, slots=True)
class Result:
    """A replay with all that is to be said about it."""

    logs: tuple[Path, ...]
    log: SiteLog
    settings: Mapping[str, Any]
    study: Study
    run_id: int | None
    report: Path | None
    prices: Prices | None = None

    @property
    def worth(self) -> Worth | None:
        """What the shown replay is worth; None: the site gave no prices."""
        if self.prices is None:
            return None
        outcome = (self.study.as_daemon or self.study).outcome
        return worth_of(outcome.lent_node_hours, outcome.useful_node_hours, self.prices, outcome.lent_watts)


def result_document(result: Result) -> dict[str, Any]:
    """All of it, for programs."""
    log, done = result.log, result.study
    return {
        "format": RESULT_FORMAT,
        "version": __version__,
        "run": result.run_id,
        "report": None if result.report is None else str(result.report),
        "log": {
            "files": [str(path) for path in result.logs],
            "format": log.format,
            "packed": log.packed,
            "jobs": log.jobs,
            "rows": asdict(log.rows),
            "notes": list(log.notes),
            "warnings": list(log.warnings),
            "empty_hours": _empty_hours(log, done),
            "from_s": log.holes.from_s,
            "until_s": log.holes.until_s,
            "nodes": len(log.holes.node_names),
            "holes": len(log.holes),
        },
        "settings": dict(result.settings),
        "outcome": outcome_to_dict(done.outcome),
        "forecast": asdict(done.record.forecast),
        "as_daemon": done.as_daemon and daemon_document(done.as_daemon),
        "estimate": done.estimate and asdict(done.estimate),
        "shares": share_document(log, done.on_shares),
        "worth": result.worth and asdict(result.worth),
        "wall_s": done.wall_s,
        "events_per_s": done.events_per_s,
    }


def _empty_hours(log: SiteLog, done: Study) -> dict[str, Any] | None:
    """The hours in which nearly the whole machine was idle, and the figures without them."""
    empty = log.empty
    if empty is None:
        return None
    without = None if empty.left_out else without_empty_hours(done.record.timeline, empty, log.holes.until_s)
    return {
        "hours": empty.hours,
        "idle_node_hours": empty.idle_node_hours,
        "left_out": empty.left_out,
        "without": without and asdict(without),
    }


def daemon_document(done: DaemonStudy) -> dict[str, Any]:
    """What the daemon would have got, for programs."""
    return {
        "outcome": outcome_to_dict(done.outcome),
        "site": outcome_to_dict(done.site),
        "forecast": asdict(done.record.forecast),
        "wall_s": done.wall_s,
    }


def share_document(log: SiteLog, played: Study | None = None) -> dict[str, Any] | None:
    """What lay idle on used nodes, and what was lent of it, for programs; None where the log does not show it."""
    shares = log.shares
    if shares is None:
        return None
    parts = {"cpus": shares.cpus, "memory": shares.memory_bytes, "gpus": shares.gpus}
    daemon = played.as_daemon if played is not None else None
    return {
        **_lent_document(log, lent_of(played, log)),
        "at_least": [name for name, part in parts.items() if part is not None and part.is_least],
        "spread_share": shares.spread,
        "task": log.places and asdict(log.places.task),
        "replay": played and outcome_to_dict(played.outcome),
        "as_daemon": daemon and {**daemon_document(daemon), "shares": _lent_document(log, lent_of(daemon, log))},
    }


def _lent_document(log: SiteLog, lent: LentShares | None) -> dict[str, Any]:
    """The figures of all nodes, and of groups of them, with what a replay lent."""
    outcome = share_outcome(log, lent)
    return {
        "outcome": outcome and asdict(outcome),
        "groups": [
            {"what": row.what, "name": row.name, "nodes": row.nodes, "outcome": asdict(row.outcome)}
            for row in share_rows(log, lent)
        ],
    }
