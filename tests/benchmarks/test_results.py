from __future__ import annotations

from benchmarks.results import with_sections

PAGE = "# Results\n\nWhat it is.\n\n## a\n\n| old |\n\n## c\n\nlast\n"


def test_sections_of_logs_that_were_replayed_are_replaced_and_the_others_stay() -> None:
    page = with_sections(PAGE, {"a": "| new |\n\n", "b": "between\n"}, ["a", "b", "c", "d"])
    assert page == "# Results\n\nWhat it is.\n\n## a\n\n| new |\n\n## b\n\nbetween\n\n## c\n\nlast\n"


def test_nothing_new_leaves_the_page_as_it_is() -> None:
    assert with_sections(PAGE, {}, ["a", "b", "c"]) == PAGE
