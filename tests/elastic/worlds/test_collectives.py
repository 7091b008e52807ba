from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.elastic.harness import PATIENCE_S, SCRIPTS


@pytest.mark.parametrize("way", ["finish", "promise", "ddp"])
def test_nobody_waits_for_a_send_that_gloo_forgot(way: str) -> None:
    """And the process ends in time, although the send never does."""
    run = subprocess.run(
        [sys.executable, str(SCRIPTS / "stuck.py"), way],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    facts = json.loads(run.stdout)
    assert facts["forgotten"], "gloo has learned to tell: see whether collectives.py is still needed"
    assert len(facts["lost"]) == 1
    assert facts["left_s"] < 30, "it should take a tenth of a second; gloo alone would wait for days"
    assert facts["alone"] == [2.0]
