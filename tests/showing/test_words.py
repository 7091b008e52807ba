from __future__ import annotations

import pytest

from freetrain.showing import words


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (0.064, "0.06"), (22.46, "22.5"), (14.0, "14"), (407.4, "407"), (137639.2, "137,639")],
)
def test_number(value: float, shown: str) -> None:
    assert words.number(value) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.0, "0 ms"), (0.000_43, "0.43 ms"), (0.0114, "11 ms"), (0.1401, "140 ms"), (1.02, "1,020 ms")],
)
def test_milliseconds(seconds: float, shown: str) -> None:
    assert words.milliseconds(seconds) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (999_000, "999,000"),
        (1.3e8, "130 million"),
        (1.304e11, "130 billion"),
        (9.9999e11, "1.00 trillion"),
    ],
)
def test_large(value: float, shown: str) -> None:
    assert _plain(words.large(value)) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (0, "0 %"),
        (0.0004, "under 0.1 %"),
        (0.0312, "3.1 %"),
        (0.951, "95.1 %"),
        (0.9931, "99.3 %"),
        (0.99996, "99.9 %"),
        (1 - 1e-9, "100 %"),
        (1.04, "104.0 %"),
    ],
)
def test_share(value: float | None, shown: str) -> None:
    assert _plain(words.share(value)) == shown


@pytest.mark.parametrize(
    ("seconds", "long", "brief"),
    [
        (0, "0 seconds", "–"),
        (1, "1 second", "1 s"),
        (600, "10 minutes", "10 min"),
        (23_400, "6.5 hours", "6.5 h"),
        (14.08 * 86400, "14 days", "14 d"),
        (90 * 86400, "90 days", "90 d"),
    ],
)
def test_duration(seconds: float, long: str, brief: str) -> None:
    assert _plain(words.duration(seconds)) == long
    assert _plain(words.brief_duration(seconds)) == brief


@pytest.mark.parametrize(
    ("value", "of", "shown"),
    [
        (38_877.4, None, "38,877"),
        (0.47, 39_297, "under 1"),
        (22.46, 39_297, "22"),
        (22.46, 40, "22.5"),
        (0.01, 40, "under 0.1"),
        (0, 39_297, "0"),
    ],
)
def test_amounts_side_by_side_are_rounded_alike(value: float, of: float | None, shown: str) -> None:
    assert words.amount(value, of) == shown


def test_count_knows_one_from_many() -> None:
    assert _plain(words.count(1, "node")) == "1 node"
    assert _plain(words.count(1234, "node")) == "1,234 nodes"


def test_moment_is_iso() -> None:
    assert words.moment(1_700_000_000) == "2023-11-14 22:13"
    assert words.moment(None) == "–"


def _plain(shown: str) -> str:
    return shown.replace("\N{NO-BREAK SPACE}", " ")


def test_names_sort_as_people_count() -> None:
    assert words.natural_order(["c10", "c2", "gpu1", "7", "10", "c", "b2-n11", "b2-n3"]) == [
        *("7", "10", "b2-n3", "b2-n11", "c", "c2", "c10", "gpu1")
    ]


def test_names_with_thousands_of_digits_and_with_other_scripts_sort_too() -> None:
    long = "9" * 5000
    assert words.natural_order([long, "c²", "c٣", "c2", "3"]) == ["3", long, "c2", "c²", "c٣"]
