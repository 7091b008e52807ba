"""The site is built without a warning and loads nothing from elsewhere; its pages are short and plain."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields
from html.parser import HTMLParser
from pathlib import Path

import click
import pytest

from freetrain.cli.main import cli
from freetrain.core.trainer import PAST_FIELDS, TrainerPast
from freetrain.lending.node_verdicts import NODE_VERDICTS, NOT_COMPETING
from freetrain.lending.training_verdicts import TRAINING_VERDICTS
from tests.docs_shell import PAGES, ROOT, place
from tests.needed import IN_CI

MOST_WORDS = 1200
LONGER = ("docs/reference/",)
PUZZLING = re.compile(r"\b(said|told|whom|whoever|anew|fewest|in vain|of others|he|his|him)\b|for (one|each) in")


class Loaded(HTMLParser):
    """What a page loads by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        links = tag == "link" and given.get("rel") in {"stylesheet", "preconnect"}
        if links or tag in {"script", "img", "iframe"}:
            self.addresses += [address for name in ("src", "href") if (address := given.get(name))]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not IN_CI:
        pytest.importorskip("material", reason="no mkdocs-material: pip install '.[docs]'")
    directory = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(directory)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return directory


def test_it_is_built_with_all_pages_and_links_that_lead_somewhere(site: Path) -> None:
    built = {str(path.relative_to(site).with_suffix(".md")) for path in site.rglob("*.html")} - {"404.md"}
    assert built == {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}


def test_it_loads_nothing_from_elsewhere(site: Path) -> None:
    loaded = Loaded()
    for page in site.rglob("*.html"):
        loaded.feed(page.read_text())
    assert len(loaded.addresses) > 100
    assert [address for address in loaded.addresses if "//" in address] == []
    styles = "".join(style.read_text() for style in site.rglob("*.css"))
    assert re.findall(r"(?:url\(|@import )[\"']?(?:https?:)?//[^)]*", styles) == []


def test_the_page_of_commands_has_all_of_them(site: Path) -> None:
    page = (site / "reference/commands.html").read_text()
    shown = set(re.findall(r'<h2 id="freetrain-([a-z-]+)', page))
    context = click.Context(cli)
    commands = {name: cli.get_command(context, name) for name in cli.list_commands(context)}
    assert {name for name, command in commands.items() if command and not command.hidden} - shown == set()
    assert "--max-running" in page


def test_the_page_of_reasons_has_all_of_nodes(site: Path) -> None:
    shown = re.findall(r"<td>(.*?)</td>", (site / "reference/verdicts.html").read_text())
    assert {verdict.name for verdict in (*NODE_VERDICTS, NOT_COMPETING)} <= set(shown)
    assert not [cell for cell in shown if "{" in cell]


def test_the_page_of_policies_has_every_field_of_a_trainers_past(site: Path) -> None:
    page = (site / "developers/policy.html").read_text()
    assert re.findall(r"<td><code>(\w+)</code></td>", page)[-len(PAST_FIELDS) :] == [
        field.name for field in fields(TrainerPast)
    ]


def test_users_find_every_reason_for_having_few_nodes() -> None:
    page = (ROOT / "docs/users/why-so-few.md").read_text()
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall("`([^`]+)`", row)} == {
        verdict.name for verdict in TRAINING_VERDICTS
    }


@pytest.mark.parametrize("page", PAGES, ids=place)
def test_a_page_is_short_and_plain(page: Path) -> None:
    text = page.read_text()
    if not place(page).startswith(LONGER):
        assert len(text.split()) <= MOST_WORDS
    text = re.sub(r"^```.*?^```|`[^`]*`", "", text, flags=re.DOTALL | re.MULTILINE)
    assert [found[0] for found in PUZZLING.finditer(text)] == []


def test_the_readme_is_one_screen_or_two() -> None:
    assert (ROOT / "README.md").read_text().count("\n") <= 120
