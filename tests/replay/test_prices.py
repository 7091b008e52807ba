from __future__ import annotations

from pathlib import Path

import pytest

from freetrain.errors import InputError
from freetrain.replay.prices import read_prices

EXAMPLE = Path(__file__).parents[2] / "etc" / "prices.example.toml"


def test_the_example_is_read() -> None:
    prices = read_prices(EXAMPLE)
    assert (prices.currency, prices.gpus_per_node, prices.per_kwh) == ("EUR", 4, 0.2)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[prices]\nper_kwh = -1", "per_kwh: Input should be greater than or equal to 0"),
        ("[prices]\nper_hour = 1", "per_hour: Extra inputs are not permitted"),
        ("per_kwh = 1", r"no table \[prices\]"),
        ("[prices", "are not TOML"),
    ],
)
def test_wrong_prices_are_named(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=complaint) as raised:
        read_prices(path)
    assert "prices.example.toml" in raised.value.hint


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_prices(tmp_path / "none.toml")
