from __future__ import annotations

import json
import subprocess
import sys

from tests.elastic.harness import PATIENCE_S, SCRIPTS


def test_who_could_not_form_a_world_forms_the_next_one_with_a_newcomer() -> None:
    run = subprocess.run(
        [sys.executable, str(SCRIPTS / "half_formed.py"), "survivor"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    facts = json.loads(run.stdout)
    assert facts == {"abandoned": True, "total": [2.0], "whole": [True, False], "hook_is_the_scripts": True}
