from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.elastic.harness import printed_by
from tests.elastic.scripts.served import DTYPES, SIZES


@pytest.mark.parametrize("servers", [0, 1, 3])
def test_gradients_are_added_up_by_servers_where_there_are_some(tmp_path: Path, servers: int) -> None:
    facts = json.loads(printed_by("served.py", str(servers), in_folder=tmp_path))
    tensors = len(SIZES) * len(DTYPES)
    assert facts["added"] == [True] * tensors
    assert facts["promised"] == [True] * tensors
    assert facts["control"] == [True]
    assert facts["served"] == [2 * tensors] * servers
