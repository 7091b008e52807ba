from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from freetrain.cli.main import cli
from freetrain.cli.man_pages import PAGES, commands_page

PROJECT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_made_from_the_commands(name: str) -> None:
    assert (PROJECT / name).read_text() == PAGES[name](), "run python -m freetrain.cli.man_pages"


def test_every_command_is_on_the_page_with_its_options() -> None:
    page = commands_page().replace("\\-", "-")
    context = cli.make_context("freetrain", [], resilient_parsing=True)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        assert (f".SS freetrain {name} " in page) is not command.hidden
    assert "--max-running" in page
    assert "--help" not in page


def test_what_is_set_line_by_line_stays_so() -> None:
    assert "\n.nf\nbash:  freetrain completion bash" in commands_page()


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_finds_nothing_wrong_with_it(name: str) -> None:
    done = subprocess.run(
        ["groff", "-man", "-ww", "-Tutf8", "-Kutf8", PROJECT / name], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
