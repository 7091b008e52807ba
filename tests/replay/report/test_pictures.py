from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from freetrain.replay.report.pictures import (
    NARROW,
    WIDE,
    Format,
    idle_and_lent,
    lengths_of_holes,
    nodes_by_trainer,
)
from freetrain.replay.report.series import HoleLengths, NodeGrid, NodesOverTime

_DATE = re.compile(r'font-size: (\d+)px[^>]* x="([\d.]+)"[^>]*>\d{4}-\d\d-\d\d<')


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=lambda size: size.name)
@pytest.mark.parametrize("days", [2, 5, 7, 14, 60])
def test_dates_do_not_run_into_each_other(size: Format, days: int) -> None:
    nodes = np.ones(days)
    picture = idle_and_lent(NodesOverTime(np.linspace(0.0, 86400.0 * days, days + 1), nodes, nodes, 1.0), size)
    dates = [(float(font), float(x)) for font, x in _DATE.findall(picture)]
    apart = [later - earlier for (_, earlier), (_, later) in itertools.pairwise(dates)]
    assert apart
    assert min(apart) > 6.5 * dates[0][0], "ten digits and dashes"


def test_few_holes_are_counted_in_whole_numbers() -> None:
    lengths = HoleLengths(("10 – 30 min", "1 – 3 h"), np.array([11, 2]), np.array([3.0, 4.5]))
    picture = lengths_of_holes(lengths, WIDE)
    assert "11  (84.6" in picture
    assert "2  (15.4" in picture
    assert "3.0  (40.0" in picture, "hours are not counted"
    assert "11.0" not in picture


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=lambda size: size.name)
def test_dates_below_the_nodes_end_within_the_picture(size: Format) -> None:
    grid = NodeGrid(("n1", "n2"), np.zeros((2, 24), np.uint8), 0.0, 2 * 86400.0)
    dates = [(float(font), float(x)) for font, x in _DATE.findall(nodes_by_trainer(grid, [], size))]
    assert dates
    assert max(x + 2.9 * font for font, x in dates) <= size.width
