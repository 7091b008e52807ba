"""Whatever a file holds, every row is accounted for."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from freetrain.errors import InputError
from freetrain.replay.logs import ReadOptions, read_site_log
from tests.replay.logs.build import hour, row, sacct
from tests.replay.logs.test_swf import swf, swf_row

SACCT = sacct(
    row("1"),
    row("2", name="a|b", list="c[1-3,7]"),
    row("3", name="x\ny"),
    row("4.batch"),
    row("5", state="PENDING", start="Unknown", end="Unknown", list="None assigned"),
    row("6", end="Unknown", state="RUNNING", list="d1"),
    row("7", list="c[01-04]", start="05", end="09"),
)
SWF = swf(*(swf_row(job, submit=job * 600) for job in range(8)))
EVENTS = "t,node,idle\n0,a,1\n5,b,1\n9,a,0\n20,a,1\n30,b,0\n"

cuts = st.lists(
    st.tuples(st.integers(0, 600), st.integers(0, 9), st.text("|\n ,;0a9[-]:TZ\x01é", max_size=6)), max_size=5
)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([SACCT, SWF, EVENTS]), cuts)
def test_rows_read_are_used_ignored_or_rejected(text: str, changes: list[tuple[int, int, str]]) -> None:
    options = ReadOptions(from_s=0.0 if text is EVENTS else hour(0))
    for at, length, instead in changes:
        text = text[:at] + instead + text[at + length :]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        path.write_bytes(text.encode())
        try:
            log = read_site_log([path], options)
        except InputError as error:
            assert error.what.endswith(".")  # noqa: PT017
            return
    rows = log.rows
    assert rows.read == rows.used + sum(rows.ignored.values()) + rows.rejected
    assert all(count > 0 for count in (rows.used, *rows.ignored.values()))
    assert len(rows.first_rejects) == min(rows.rejected, 20)
    assert 0 <= log.holes.mean_idle_nodes <= len(log.holes.node_names)


def test_an_unharmed_log_counts_as_it_should(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(SACCT)
    rows = read_site_log([path], ReadOptions(from_s=hour(0), until_s=hour(24))).rows
    assert (rows.read, rows.used, dict(rows.ignored), rows.rejected) == (
        7,
        5,
        {"job step": 1, "never started": 1},
        0,
    )
