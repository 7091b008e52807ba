from __future__ import annotations

import json
from pathlib import Path

from tests.elastic.harness import workers


def test_torchs_own_collectives_are_made(tmp_path: Path) -> None:
    with workers(tmp_path, "asking.py", FREETRAIN_MIN_MEMBERS="2") as trainer:
        trainer.start(2)
        assert set(trainer.finish().values()) == {0}, trainer.errors()
        found = [json.loads(path.read_text()) for path in sorted(trainer.out.glob("asked-*.json"))]
    assert found == [[3.0, [1.0, 2.0], [1.0, 2.0], 2.0, [0, 1]]] * 2
