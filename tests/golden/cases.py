"""The replays that are recorded: parts of the sample logs, and of public traces where these are at hand."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SAMPLES = Path(__file__).parents[2] / "sample_logs"


@dataclass(frozen=True, slots=True)
class Case:
    """One replay.

    Attributes:
        name: of the case.
        log: the file, below the sample logs or below the directory of traces.
        options: further arguments of ``freetrain replay``.
        is_sample: whether the file is one of the sample logs.
    """

    name: str
    log: str
    options: tuple[str, ...]
    is_sample: bool = False

    def arguments(self, data: Path | None) -> tuple[str, ...] | None:
        """Arguments of ``freetrain replay``; None: its trace is not at hand."""
        path = SAMPLES / self.log if self.is_sample else data and data / self.log
        if path is None or not path.exists():
            return None
        return (str(path), *self.options, "--exact", "--quiet", "--no-store", "--no-report", "--json")


_KTH = "traces/kth-1996-10/jobs.psv.gz"
_THETA = "traces/theta-2023-01/jobs.psv.gz"
DEAR = ("--scale-up", "60", "--scale-down", "60", "--forced-loss", "360", "--start", "60")

CASES = (
    Case("small-cluster", "small-cluster.sacct.gz", ("--until", "2024-06-05T00:00"), True),
    Case("small-cluster-dear", "small-cluster.sacct.gz", ("--until", "2024-06-04T00:00", *DEAR), True),
    Case(
        "small-cluster-woken", "small-cluster.sacct.gz", ("--until", "2024-06-03T18:00", "--wake"), is_sample=True
    ),
    Case("large-machine", "large-machine.swf.gz", ("--max-running", "10", "--until", "2024-06-03T12:00"), True),
    Case("kth", _KTH, ("--nodes", "100", "--from", "1996-10-07", "--until", "1996-10-11")),
    Case("theta", _THETA, ("--nodes", "4392", "--from", "2023-01-11", "--until", "2023-01-11T03:00")),
    Case("cerit", "traces/cerit-2013-01/jobs.psv.gz", ("--from", "2013-01-08", "--until", "2013-01-10")),
    Case(
        "cerit-shared",
        "traces/cerit-2013-01/jobs.psv.gz",
        ("--from", "2013-01-08", "--until", "2013-01-08T12:00", "--share", "any"),
    ),
    Case("ccr", "traces/ccr-pozidriv-2016/jobs.psv.gz", ("--from", "2016-12-30", "--until", "2016-12-30T06:00")),
    Case("summit", "summit/node_events.csv.gz", ("--only-nodes", "0-63", "--until", "2021-02-11")),
)
