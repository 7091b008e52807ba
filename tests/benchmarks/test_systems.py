"""What is made of replays that were measured: the table and the picture."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from benchmarks.systems import FIGURES, KEPT, kept, table
from benchmarks.systems_picture import Measured, draw
from freetrain.policies import measured as listed

OUTCOME = {
    "u_work": 0.9, "work": 7200.0, "trainers_completed": 3, "completion_mean_s": 5400.0, "rescales": 12,
    "longest_wait_s": 9000.0, "leaf_links": 1.25, "leaf_bytes": 2.5e15, "solve_p50_s": 0.001,
    "solve_p95_s": 0.0105,
}  # fmt: skip
MEASURED = [
    Measured("june", "GADGET", OUTCOME),
    Measured("june", "SMD", OUTCOME | {"u_work": 0.45, "completion_mean_s": None}),
]


def test_a_table_has_a_line_for_each_replay() -> None:
    head, _, gadget, smd = table(MEASURED)
    assert head.count("|") == len(FIGURES) + 3
    assert gadget == "| june | GADGET | 0.900 | 2 | 3 | 1.50 | 2.5 | 12 | 2,500 | 1.25 | 1.0 | 10.5 |"
    assert smd.startswith("| june | SMD | 0.450 | 2 | 3 | – |")


def test_bars_of_one_figure_share_a_scale() -> None:
    picture = ElementTree.fromstring(draw(FIGURES[:1], MEASURED))
    lengths = [float(one.attrib["width"]) for one in picture.iter("{http://www.w3.org/2000/svg}rect")]
    assert lengths[1] == lengths[0] / 2


def test_the_figures_by_which_a_policy_is_chosen_are_kept_for_the_command_that_lists_them() -> None:
    text = kept([Measured("june", "smd", OUTCOME), Measured("june", "freetrain, placed by dltap", OUTCOME)])
    assert '    ("smd", "june", 2.00, 3, 1.50, 2.50),' in text.splitlines()
    assert "dltap" not in text


def test_the_page_and_the_command_have_the_same_figures() -> None:
    page = (Path(__file__).parents[2] / "docs/evidence/policies.md").read_text()
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith(("| summit", "| theta", "| cerit"))]
    named = {(row[1], row[0].removeprefix("| ")): row for row in rows}
    assert KEPT.exists()
    assert {(policy, trace) for policy, trace, *_ in listed.MEASURED} <= named.keys()
    for policy, trace, work, completed, mean_h, _ in listed.MEASURED:
        row = named[policy, trace]
        shown = [row[3], row[4], row[5]]
        assert shown == [f"{work:,.0f}", f"{completed:,}", f"{mean_h:.2f}"]
