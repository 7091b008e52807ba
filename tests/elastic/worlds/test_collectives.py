from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.elastic.harness import printed_by


@pytest.mark.parametrize("way", ["state", "gradients", "script"])
def test_nobody_waits_for_a_send_that_gloo_forgot(tmp_path: Path, way: str) -> None:
    """And the process ends in time, although the send never does."""
    facts = json.loads(printed_by("stuck.py", way, in_folder=tmp_path))
    assert facts["forgotten"], "gloo has learned to tell: see whether collectives.py is still needed"
    assert len(facts["lost"]) == 1
    assert facts["left_s"] < 30, "it should take a tenth of a second; gloo alone would wait for days"
    assert facts["alone"] == [2.0]
    gradients_of_a_lost_step = way == "gradients"
    assert (facts["kept"] < 0.01) == gradients_of_a_lost_step, "what the send holds is to be given back"
