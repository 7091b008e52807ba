from __future__ import annotations

import json
from pathlib import Path

from tests.elastic.harness import printed_by


def test_sharded_checkpoints_are_kept_read_by_others_and_not_believed_where_they_are_damaged_or_evil(
    tmp_path: Path,
) -> None:
    assert json.loads(printed_by("sharded_files.py", str(tmp_path / "checkpoints"), in_folder=tmp_path)) == {
        "kept": ["step-0000000002", "step-0000000003"],
        "step": 3,
        "same": True,
        "whole": True,
        "step_where_one_is_damaged": 2,
        "where_one_is_evil": "refused",
        "was_run": False,
        "for_a_model_that_is_not_sharded": "refused",
    }
