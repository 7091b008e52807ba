from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

import pytest

from freetrain.config import Config, settings
from freetrain.config.documents import DOCUMENTS, PARTLY_MADE, example_file, man_page, reference_page
from tests import needed

PROJECT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_text_is_made_from_the_model(name: str) -> None:
    made = DOCUMENTS[name]()
    assert (PROJECT / name).read_text() == made, "run python -m freetrain.config in the project's folder"


@pytest.mark.parametrize("name", PARTLY_MADE)
def test_every_part_of_a_text_is_made_from_the_keys_of_the_tag(name: str) -> None:
    text = (PROJECT / name).read_text()
    assert text == PARTLY_MADE[name](text), "run python -m freetrain.config in the project's folder"
    assert text.replace("gradients", "gradient") != PARTLY_MADE[name](text.replace("gradients", "gradient"))


def test_the_example_file_uncommented_says_the_defaults() -> None:
    lines = example_file().splitlines()
    lines_given = [line.removeprefix("# ") for line in lines if " = " in line or line.startswith("[")]
    assert len(lines_given) > len(settings())
    assert Config.model_validate(tomllib.loads("\n".join(lines_given))) == Config()


def test_values_that_are_given_are_not_commented_out() -> None:
    given = {
        "lend.mode": "act",
        "lend.margin": 90.0,
        "lend.spare_suspendable": True,
        "lend.shares": {"alice": 2.0},
        "log.levels": {"freetrain.slurm": "debug"},
    }
    config = Config.model_validate(tomllib.loads(example_file(given)))
    assert config == Config.model_validate(
        {
            "lend": {"mode": "act", "margin": 90.0, "spare_suspendable": True, "shares": {"alice": 2.0}},
            "log": {"levels": {"freetrain.slurm": "debug"}},
        }
    )


@pytest.mark.parametrize("text", [reference_page(), man_page()])
def test_every_setting_is_described_with_its_default(text: str) -> None:
    plain = text.replace("\\-", "-").replace("\\(dq", '"').replace("\\(aq", "'").replace("\\|", "|")
    for setting in settings():
        assert setting.name in plain
        assert setting.show(setting.default) in plain
        assert setting.means in plain
        assert setting.takes in plain


def test_what_needs_a_restart_is_marked() -> None:
    assert "| `poll`\\* |" in reference_page()
    assert "| `mode` |" in reference_page()
    assert man_page().count("Needs a restart.") == sum(setting.needs_restart for setting in settings())


@needed.a_program("groff")
def test_the_man_page_is_one(tmp_path: Path) -> None:
    page = tmp_path / "freetrain.toml.5"
    page.write_text(man_page())
    done = subprocess.run(
        ["groff", "-man", "-ww", "-Tutf8", "-Kutf8", page], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == ""
    assert "settings of freetrain" in done.stdout
