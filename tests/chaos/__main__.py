"""Chaos from the command line: see the docstring of ``tests.chaos``."""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.faults import FAULTS, Fault
from tests.chaos.invariants import Watch, at_the_end, converged
from tests.chaos.scene import Job, Scene
from tests.daemon.on_slurm.site import POLL_S
from tests.slurm_lab import short_directory

FAULTS_BETWEEN_CALMS = 12
CONVERGES_S = 120.0
"""Three looks, and time for Slurm to put nodes back that vanished, on a busy machine."""
ENDS_S = 90.0
EARLY = 0.3
MEAN_S = 3.5
"""A fault lasts so long in the mean: so long nothing happens in its place without freetrain."""
_MOST_SHOWN = 20


@dataclass
class Outcome:
    """What a run came to.

    Attributes:
        faults: kind → how many happened.
        violations: sentences.
        calms_s: how long it took each time until books and Slurm agreed.
        looks: how often all jobs were looked at.
        ended: the daemon's exit status → how often it had ended by itself; -9: a fault had ended it.
        delays_s: of the site's jobs, from submission to their first start.
    """

    faults: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    calms_s: list[float] = field(default_factory=list)
    looks: int = 0
    ended: Counter[int] = field(default_factory=Counter)
    delays_s: list[float] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """A table."""
        yield from (f"{kind:<28}{count:>6}" for kind, count in sorted(self.faults.items()))
        yield f"{'faults':<28}{self.faults.total():>6}"
        yield f"{'looks at all jobs':<28}{self.looks:>6}"
        yield from (f"daemon ended with {status:<11}{count:>6}" for status, count in sorted(self.ended.items()))
        if self.calms_s:
            yield f"{'books agree with Slurm after':<28}{max(self.calms_s):>6.0f} s, of {len(self.calms_s)}"
        yield f"{'start delay of site jobs':<28}p95 {_p95(self.delays_s):.1f} s of {len(self.delays_s)}"
        yield f"{'violations':<28}{len(self.violations):>6}"
        yield from (f"  {violation}" for violation in self.violations[:_MOST_SHOWN])


def play(launcher: str, seed: int, seconds: float, has_daemon: bool = True, kept: Path | None = None) -> Outcome:
    """One site, from up to down; what shows why something was violated is kept."""
    outcome = Outcome()
    with short_directory() as directory, closing(Scene(directory, launcher, seed, seconds, has_daemon)) as scene:
        scene.begin()
        watch, choice, begin_s = Watch(scene), random.Random(seed), time.monotonic()
        while (passed_s := time.monotonic() - begin_s) < seconds:
            for _ in range(FAULTS_BETWEEN_CALMS):
                _let_happen(_draw(choice, launcher, passed_s < EARLY * seconds), scene, watch, outcome)
            _wait_for_calm(scene, watch, outcome)
        _end(scene, watch, outcome)
        if kept is not None and outcome.violations:
            scene.keep(kept)
    return outcome


def _draw(choice: random.Random, launcher: str, is_early: bool) -> Fault:
    """Of each kind as many, whatever there is of it."""
    possible = [fault for fault in FAULTS if fault.launcher in ("", launcher) and is_early >= fault.is_early]
    kind = choice.choice(sorted({fault.kind for fault in possible}))
    return choice.choice([fault for fault in possible if fault.kind == kind])


def _let_happen(fault: Fault, scene: Scene, watch: Watch, outcome: Outcome) -> None:
    if not scene.has_daemon and not fault.is_slurms:
        _look(watch, outcome, MEAN_S)
        return
    outcome.faults[fault.kind] += 1
    before = len(outcome.violations)
    for lasts_s in fault.breaking(scene):
        _look(watch, outcome, lasts_s)
    scene.keep_daemon_alive()
    _look(watch, outcome, 1.0)
    outcome.violations[before:] = [f"{fault.name}: {found}" for found in outcome.violations[before:]]


def _look(watch: Watch, outcome: Outcome, for_s: float) -> None:
    until_s = time.monotonic() + for_s
    while True:
        outcome.violations += watch.look()
        if (left_s := until_s - time.monotonic()) <= 0:
            return
        time.sleep(min(1.0, left_s))


def _wait_for_calm(scene: Scene, watch: Watch, outcome: Outcome) -> None:
    """Until books and Slurm agree, with all that is broken mended."""
    begin_s = time.monotonic()
    while wrong := scene.has_daemon and converged(scene):
        scene.keep_daemon_alive()
        if time.monotonic() - begin_s > CONVERGES_S:
            outcome.violations.append(f"after {CONVERGES_S:.0f} s without faults: {wrong}")
            return
        _look(watch, outcome, 1.0)
    outcome.calms_s.append(time.monotonic() - begin_s)


def _end(scene: Scene, watch: Watch, outcome: Outcome) -> None:
    """The training stops, nothing more is lent, and what the site has submitted starts."""
    scene.is_over = True
    if scene.has_daemon:
        (scene.site.out / "counting" / "enough").touch()
        _look(watch, outcome, 5 * POLL_S)
        (scene.state / "STOP").touch()
    until_s = time.monotonic() + ENDS_S
    while time.monotonic() < until_s and any(_is_to_come(job) for job in scene.queue()):
        _look(watch, outcome, 1.0)
    _wait_for_calm(scene, watch, outcome)
    outcome.violations += at_the_end(scene)
    scene.stop_daemon()
    outcome.violations += scene.wrong
    outcome.looks, outcome.ended, outcome.delays_s = watch.looks, scene.ended, _delays_s(scene)


def _is_to_come(job: Job) -> bool:
    return job.partition == "main" and job.state in ("RUNNING", "PENDING", "COMPLETING")


def _delays_s(scene: Scene) -> list[float]:
    """Of each job up to its first start; a node that vanished submits it again."""
    first: dict[str, float] = {}
    for ran in scene.site.accounting("main"):
        if ran.id in scene.site.submitted_s:
            first[ran.id] = min(first.get(ran.id, ran.start_s), ran.start_s)
    return [max(0.0, start_s - scene.site.submitted_s[id_]) for id_, start_s in first.items()]


def _p95(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=20)[-1] if len(values) > 1 else float("nan")


def main() -> int:
    """Play, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=1, help="draws the faults and the site's jobs")
    parser.add_argument("--launcher", choices=("steer", "submit"), default="steer")
    parser.add_argument("--without", action="store_true", help="without freetrain, and with Slurm's own faults")
    parser.add_argument("--keep", type=Path, help="where the daemon's log and database go if anything is violated")
    given = parser.parse_args()
    outcome = play(given.launcher, given.seed, given.seconds, not given.without, given.keep)
    who = "no freetrain" if given.without else f"launcher {given.launcher}"
    print(f"seed {given.seed}, {who}, {given.seconds:.0f} s")
    print("\n".join(outcome.lines()))
    return int(bool(outcome.violations))


if __name__ == "__main__":
    sys.exit(main())
