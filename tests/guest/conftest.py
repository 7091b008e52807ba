from __future__ import annotations

from collections.abc import Iterator

import pytest

from freetrain.guest.guest import Guest


@pytest.fixture
def guest() -> Iterator[Guest]:
    guest = Guest(patience_s=0.05)
    yield guest
    guest.close()
