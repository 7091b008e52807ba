from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def environment_as_before() -> Iterator[None]:
    """A training names its network interface in the environment, which here is that of all tests."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)
