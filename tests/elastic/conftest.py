from __future__ import annotations

import faulthandler
from collections.abc import Iterator

import pytest

pytest.importorskip("torch")

HARD_LIMIT_S = 400.0


@pytest.fixture(autouse=True)
def _hard_limit(request: pytest.FixtureRequest) -> Iterator[None]:
    """No test of this part may hang: past the limit the whole run ends with all stacks."""
    limit_s = 3600.0 if request.node.get_closest_marker("soak") else HARD_LIMIT_S
    faulthandler.dump_traceback_later(limit_s, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()
