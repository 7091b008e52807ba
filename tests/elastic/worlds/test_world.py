from __future__ import annotations

import json
from pathlib import Path

from tests.elastic.harness import printed_by


def test_who_could_not_form_a_world_forms_the_next_one_with_a_newcomer(tmp_path: Path) -> None:
    facts = json.loads(printed_by("half_formed.py", in_folder=tmp_path))
    assert facts == {"abandoned": True, "total": [2.0], "hook_is_the_scripts": True}
