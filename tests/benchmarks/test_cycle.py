from __future__ import annotations

import json
from dataclasses import replace

from benchmarks.big_site import Size
from benchmarks.cycle import as_json, measure_site, measure_solver, total_table

SMALL = Size(nodes=160, lent=120, site_jobs=40, jobs=230, trainers=4)


def test_cycles_on_a_site_of_texts_are_measured() -> None:
    measured = measure_site(SMALL)
    assert len(measured.cycles) == 12
    assert 100 < measured.cycles[-1].lent <= 160
    assert all(cycle.spent.cpu_s > 0 and cycle.questions == 0 for cycle in measured.cycles)
    assert max(cycle.orders for cycle in measured.later) > 0
    assert total_table([measured]).row_count == 1
    assert json.loads(as_json([measured], []))["cases"][0]["name"] == "texts, act"


def test_a_decision_with_hole_ends_is_measured() -> None:
    solved = measure_solver(replace(SMALL, hole_ends=2))
    assert solved.hole_ends == 2
    assert solved.spent.wall_s > 0
