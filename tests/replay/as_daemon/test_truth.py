"""Each sentence on nodes and trainings in looks of recorded workloads is held against what was seen and decided.

    TRUTH_UNTIL=2024-06-05T00:00 pytest tests/replay/as_daemon/test_truth.py

takes longer windows of the sample logs.
"""

from __future__ import annotations

import os
from math import inf

import pytest
from click.testing import CliRunner

from freetrain.cli import replay
from freetrain.cli.replay import replay_command
from freetrain.loop.lending_loop import Look
from tests.golden.cases import DEAR, SAMPLES
from tests.golden.recorder import each_look
from tests.truth import Truth

UNTIL = os.environ.get("TRUTH_UNTIL", "2024-06-03T02:00")


@pytest.mark.parametrize(
    "case",
    [
        ("small-cluster.sacct.gz",),
        ("small-cluster.sacct.gz", *DEAR),
        ("large-machine.swf.gz", "--max-running", "10"),
    ],
    ids=["small", "dear", "large"],
)
def test_every_sentence_of_a_recorded_look_is_true(case: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    untrue, counts = list[str](), list[int]()

    def check(look: Look) -> None:
        truth = Truth(look)
        counts.append(truth.sentences)
        untrue.extend(f"{look.judgement.now_s}: {sentence}" for sentence in truth.untrue())

    # A long log would be replayed in a process of its own, which nobody watches.
    monkeypatch.setattr(replay, "MANY_HOLES", inf)
    log, *options = case
    quietly = ("--until", UNTIL, "--exact", "--quiet", "--no-store", "--no-report", "--json")
    with each_look(check):
        done = CliRunner().invoke(replay_command, [str(SAMPLES / log), *options, *quietly], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert len(counts) > 40
    assert sum(counts) > len(counts)
    assert untrue[:5] == [], f"{len(untrue)} of {sum(counts)} sentences in {len(counts)} looks"
