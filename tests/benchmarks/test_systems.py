"""What is made of replays that were measured: the table and the picture."""

from __future__ import annotations

from xml.etree import ElementTree

from benchmarks.systems import FIGURES, table
from benchmarks.systems_picture import Measured, draw

OUTCOME = {
    "u_work": 0.9, "work": 7200.0, "trainers_completed": 3, "completion_mean_s": 5400.0, "rescales": 12,
    "leaf_links": 1.25, "leaf_bytes": 2.5e15, "solve_p50_s": 0.001, "solve_p95_s": 0.0105,
}  # fmt: skip
MEASURED = [
    Measured("june", "GADGET", OUTCOME),
    Measured("june", "SMD", OUTCOME | {"u_work": 0.45, "completion_mean_s": None}),
]


def test_a_table_has_a_line_for_each_replay() -> None:
    head, _, gadget, smd = table(MEASURED)
    assert head.count("|") == len(FIGURES) + 3
    assert gadget == "| june | GADGET | 0.900 | 2 | 3 | 1.50 | 12 | 2,500 | 1.25 | 1.0 | 10.5 |"
    assert smd.startswith("| june | SMD | 0.450 | 2 | 3 | – |")


def test_bars_of_one_figure_share_a_scale() -> None:
    picture = ElementTree.fromstring(draw(FIGURES[:1], MEASURED))
    lengths = [float(one.attrib["width"]) for one in picture.iter("{http://www.w3.org/2000/svg}rect")]
    assert lengths[1] == lengths[0] / 2
