from __future__ import annotations

from benchmarks.results import orders_table, with_sections

PAGE = "# Results\n\nWhat it is.\n\n## a\n\n| old |\n\n## c\n\nlast\n"


def test_sections_of_logs_that_were_replayed_are_replaced_and_the_others_stay() -> None:
    page = with_sections(PAGE, {"a": "| new |\n\n", "b": "between\n"}, ["a", "b", "c", "d"])
    assert page == "# Results\n\nWhat it is.\n\n## a\n\n| new |\n\n## b\n\nbetween\n\n## c\n\nlast\n"


def test_nothing_new_leaves_the_page_as_it_is() -> None:
    assert with_sections(PAGE, {}, ["a", "b", "c"]) == PAGE


def test_a_difference_within_its_interval_is_called_none() -> None:
    work = {"freetrain": [0.80, 0.81, 0.82], "far": [0.70, 0.71, 0.72], "near": [0.81, 0.80, 0.82]}
    rows = list(orders_table(work))
    assert rows[-4:] == [
        "| freetrain | 0.810 ± 0.025 |  |",
        "| far | 0.710 ± 0.025 | -0.100 ± 0.000 |",
        "| near | 0.810 ± 0.025 | +0.000 ± 0.025 (none seen) |",
        "",
    ]
