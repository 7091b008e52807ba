from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freetrain.replay.logs import rows
from freetrain.replay.logs.rows import split_lines


@given(st.text("a|\n", max_size=60), st.integers(1, 9))
def test_lines_are_those_of_the_text_wherever_it_is_cut_to_be_looked_through(text: str, at_once: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "_BYTES_AT_ONCE", at_once)
        lines = split_lines(text.encode(), "|")
    expected = text.removesuffix("\n").split("\n") if text else []
    assert [lines.text(number) for number in range(len(lines))] == expected
    assert lines.separators.tolist() == [line.count("|") for line in expected]
