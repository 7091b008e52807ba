"""The page, and what its figures rest on."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import replace
from html.parser import HTMLParser
from itertools import islice
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from freetrain.config import Config, Prices
from freetrain.core.holes import Holes
from freetrain.core.trainer import Trainer
from freetrain.daemon.rules import rules_of
from freetrain.errors import FreetrainError, StateError
from freetrain.loop.cycle import Goal
from freetrain.policies import find_policy
from freetrain.replay.as_daemon.lent import Timing, Wakes
from freetrain.replay.foresight import Knowledge
from freetrain.replay.logs.model import EmptyHours
from freetrain.replay.outcome import definitions
from freetrain.replay.report import ReportInput, write_page
from freetrain.replay.report.page import assumptions, render
from freetrain.replay.report.pictures import NARROW, WIDE
from freetrain.replay.report.sentences import about_grid
from freetrain.replay.study import DaemonSetup
from freetrain.replay.trainers import PRESETS
from freetrain.showing import palette
from freetrain.showing.words import amount
from tests.replay.report.conftest import SETTING, SLURM, make_holes, make_input, make_record

PICTURES = 4
FORMATS = 2
VOID = {"meta", "br"}


@pytest.fixture(scope="module")
def page(report: ReportInput) -> str:
    return render(report)


class _Balance(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_everything_is_there(page: str, report: ReportInput) -> None:
    assert page.lstrip().startswith("<!DOCTYPE html>")
    assert page.count("<svg") == PICTURES * FORMATS
    for text in ("Nothing was assumed.", "jobs.psv, line 7", "freetrain replay jobs.psv", *definitions()):
        assert text in page
    text = page.replace("\N{NO-BREAK SPACE}", " ")
    assert "In 24 hours, " in text
    assert f"{len(report.study.record.runs)} trainers were admitted" in text


def test_nothing_is_loaded(page: str) -> None:
    assert "<script" not in page
    namespaces = re.sub(r' xmlns(:\w+)?="[^"]*"', "", page)
    assert "http:" not in namespaces
    assert "https:" not in namespaces
    assert "url(" not in re.sub(r"url\(#", "", page)
    assert all(
        link.startswith(("#", "data:image/png;base64,")) for link in re.findall(r'(?:href|src)="([^"]*)"', page)
    )


def test_tags_are_balanced(page: str) -> None:
    balance = _Balance()
    balance.feed(page)
    assert balance.open == []


def test_pictures_are_xml_with_names(page: str) -> None:
    for svg in _svgs(page):
        root = ElementTree.fromstring(svg)
        assert root.get("role") == "img"
        assert root.get("viewBox")
        assert root.get("width") is None
        title = root.find("{*}title")
        assert title is not None
        assert title.get("id") == root.get("aria-labelledby")
        assert title.text


def test_ids_are_unique_and_found(page: str) -> None:
    ids = re.findall(r'\bid="([^"]*)"', page)
    assert len(ids) == len(set(ids))
    used = re.findall(r'(?:url\(|href=")#([^")]+)', page) + re.findall(r'aria-labelledby="([^"]*)"', page)
    assert set(used) == set(ids)


def test_node_pictures_fill_their_axes(page: str) -> None:
    places = re.findall(r'<image [^>]* width="(\d+)" [^>]*transform="matrix\(([-\d. ]+)\)"', page)
    rights = [int(width) * float(matrix.split()[0]) + float(matrix.split()[4]) for width, matrix in places]
    assert rights == pytest.approx([size.width - 3.5 * size.font for size in (WIDE, NARROW)], abs=0.1)


def test_equal_replays_give_equal_pages(page: str, holes: Holes, trainers: tuple[Trainer, ...]) -> None:
    assert render(make_input(holes, trainers)) == page


def test_what_users_name_is_no_markup(report: ReportInput, page: str) -> None:
    assert "&lt;b&gt;x" in page
    assert "<b>x" not in page
    hostile = replace(
        report,
        title="<script>t",
        command="<script>c",
        setting=replace(report.setting, policy="<script>p"),
        version='"><script>',
    )
    assert "<script" not in render(hostile)


def test_node_names_are_no_markup() -> None:
    holes = make_holes([(0, 0, 300)], 1, 600)
    named = replace(holes, node_names=("<i>$x^2$&",))
    shown = render(make_input(named, tuple(islice(PRESETS["hpo"], 1))))
    assert "&lt;i&gt;$x^2$&amp;" in shown
    assert [ElementTree.fromstring(svg).tag for svg in _svgs(shown)]


@pytest.mark.parametrize(
    ("rows", "trainers", "expected"),
    [
        ([], (), "no node was ever idle"),
        ([], tuple(islice(PRESETS["hpo"], 2)), "no node was ever idle"),
        ([(0, 0, 300)], (), "No trainer got anywhere on them"),
        ([(0, 0, 0.5)], tuple(islice(PRESETS["hpo"], 1)), "One trainer was admitted"),
        ([(0, 0, 600), (1, 30, 90)], PRESETS["mix"], "In 10 minutes"),
        ([(0, 0, 600)], (Trainer("big", ((8, 5.0),), min_nodes=8),), "No trainer got anywhere on them"),
    ],
)
def test_little_to_show(rows: list[tuple[int, float, float]], trainers: Iterable[Trainer], expected: str) -> None:
    shown = render(make_input(make_holes(rows, 2, 600), trainers)).replace("\N{NO-BREAK SPACE}", " ")
    assert expected in shown
    assert [ElementTree.fromstring(svg).tag for svg in _svgs(shown)] or not rows


def test_ninety_days() -> None:
    rows = [(node, day * 86400.0, day * 86400.0 + 7200) for node in range(3) for day in range(0, 90, 9)]
    shown = render(make_input(make_holes(rows, 3, 90 * 86400.0), tuple(islice(PRESETS["hpo"], 3))))
    assert "In 90\N{NO-BREAK SPACE}days" in shown


def test_says_where_trainers_ran_out() -> None:
    short = (Trainer("a", ((1, 10.0),), target_samples=100), Trainer("b", ((1, 10.0),), target_samples=200))
    shown = render(make_input(make_holes([(0, 0, 600)], 1, 600), short))
    assert "had reached their targets by 2023-11-14 22:13" in shown


def test_packed_log_says_so(report: ReportInput, page: str) -> None:
    sentence = "The log names no nodes"
    assert sentence not in page
    assert sentence in render(replace(report, log=replace(report.log, packed=True)))


def test_what_makes_the_figures_doubtful_stands_above_them(report: ReportInput) -> None:
    log = replace(report.log, warnings=("Half the rows are <bad>.",))
    page = render(replace(report, log=log))
    assert page.index("Half the rows are &lt;bad&gt;.") < page.index("Key figures")


def test_colours_follow_the_reader_and_are_not_named(page: str) -> None:
    assert "@media screen and (prefers-color-scheme: dark)" in page
    drawn = "".join(_svgs(page))
    assert "var(--ink)" in drawn
    # What remains is drawn alike on both grounds.
    assert not set(re.findall(r"(?<=: )#[0-9a-f]{6}", drawn)) & set(palette.LIGHT.values())
    words = re.sub(r"<style>.*?</style>|<svg.*?</svg>", "", page, flags=re.DOTALL)
    assert not re.search(r"\b(yellow|grey|blue|red|green)\b", words)


def test_all_nodes_that_were_ever_idle_are_no_sample(report: ReportInput) -> None:
    assert about_grid(report.study.record, False).startswith("Each line is one of the 12\N{NO-BREAK SPACE}nodes")
    many = make_record(make_holes([(node, 0, 300) for node in range(200)], 200, 600), ())
    assert "50 of the 200 that were ever idle" in about_grid(many, False)


def test_one_colour_stands_for_trainers_that_are_too_many_to_tell_apart(report: ReportInput) -> None:
    assert "lent, by trainer" in render(report)
    rows = [(0, 100.0 * number, 100.0 * number + 50) for number in range(20)]
    short = tuple(Trainer(f"t{number}", ((1, 1.0),), target_samples=40) for number in range(20))
    page = render(make_input(make_holes(rows, 1, 2000), short))
    assert "lent, by trainer" not in page
    assert "lent to trainers" in page


def test_figures_without_the_empty_hours_stand_beside_those_of_all(report: ReportInput) -> None:
    holes = report.log.holes
    begin_s, end_s = np.array([holes.from_s]), np.array([holes.from_s + 3600.0])
    empty = EmptyHours(begin_s, end_s, 2.0, holes.idle_node_hours)
    page = render(replace(report, log=replace(report.log, empty=empty)))
    left = amount(holes.idle_node_hours - 2.0)
    assert (
        f'idle node-hours</th><td class="n">{amount(holes.idle_node_hours)}</td><td class="n">{left}</td>' in page
    )
    assert "without them" not in render(report)


def test_money_is_shown_where_the_site_gives_prices(report: ReportInput) -> None:
    assert "What it is worth" not in render(report)
    page = render(replace(report, prices=Prices(gpus_per_node=4, per_gpu_hour=2.0)))
    hours = report.study.outcome.useful_node_hours * 4
    assert f'<td class="n">{amount(hours)}</td>' in page
    assert f'<td class="n">EUR {amount(hours * 2)}</td>' in page


def test_what_the_figures_rest_on_stands_in_the_report(daemon_report: ReportInput) -> None:
    page = render(daemon_report)
    for row in assumptions(daemon_report.setting, (), None):
        assert f'<th scope="row">{row.name}</th><td>{row.value}</td>' in page
    for said in ("growing costs</th><td>18 s", "its node trains</th><td>8 s later", "every 10 s"):
        assert said in page


def test_names_of_options_stay_in_one_line(report: ReportInput) -> None:
    log = replace(report.log, warnings=("Half is <bad> (--strict); - --skip-empty-hours helps.",))
    page = render(replace(report, log=log))
    assert '&lt;bad&gt; (<span class="whole">--strict</span>); - <span class' in page
    assert ">--skip-empty-hours</span> helps." in page
    assert ".whole { white-space: nowrap; }" in page


def test_phones_are_told_which_replay_a_figure_is_of(page: str, daemon_report: ReportInput) -> None:
    """They have no room for the table's head."""
    assert "content: attr(data-of)" in page
    row = next(line for line in render(daemon_report).splitlines() if ">idle_node_hours<" in line)
    assert re.findall('data-of="(.*?)"', row) == ["the holes allow", "the daemon gets"]


def test_file_is_written(tmp_path: Path, report: ReportInput, page: str) -> None:
    path = tmp_path / "report.html"
    write_page(path, render(report))
    assert path.read_text(encoding="utf-8") == page
    assert len(page) < 400_000


def test_unwritable_path_is_explained(tmp_path: Path, page: str) -> None:
    with pytest.raises(StateError, match=r"cannot be written to .*missing/report\.html: No such file") as raised:
        write_page(tmp_path / "missing" / "report.html", page)
    assert raised.value.hint


def test_missing_matplotlib_is_explained(monkeypatch: pytest.MonkeyPatch, report: ReportInput) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(FreetrainError, match="needs matplotlib") as raised:
        render(report)
    assert "freetrain[report]" in raised.value.hint


def _svgs(page: str) -> list[str]:
    return re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL)


TRAINERS = (
    Trainer("a", ((1, 1.0), (8, 8.0)), scale_up_s=0.3, start_s=30),
    Trainer("b", ((1, 1.0), (64, 8.0)), min_nodes=2),
)


def values(*given: object) -> dict[str, str]:
    rows = assumptions(*given)  # type: ignore[arg-type]
    return {row.name: f"{row.value} {row.meaning}".replace("\N{NO-BREAK SPACE}", " ").strip() for row in rows}


def test_costs_and_limits_are_those_of_the_trainers_that_came_in() -> None:
    said = values(SETTING, TRAINERS, None)
    assert said["growing costs"].startswith("0.3 to 18 s")
    assert said["shrinking costs"] == "12 s"
    assert said["losing nodes to the site costs"] == (
        "12 s each time, but no more than was trained since its last change"
    )
    assert said["starting costs"] == "0 to 30 s"
    assert said["at once"] == "at most 4 trainers of 1 to 64 nodes each"


def test_how_the_published_method_charges_is_said() -> None:
    said = values(replace(SETTING, published_losses=True, horizon_s=120.0), TRAINERS, None)
    assert said["losing nodes to the site costs"] == "12 s each time"
    assert said["looks ahead"] == "120 s"
    assert not any("foresight" in name for name in said)
    for knows in set(Knowledge) - {Knowledge.LEARNED}:
        assert "foresight" in values(replace(SETTING, foresight=knows), TRAINERS, None)


def test_the_daemons_pace_and_limits_are_said() -> None:
    goal = Goal.of(find_policy("freetrain"), "throughput")
    how = DaemonSetup(rules_of(Config(), SLURM), goal, Timing(poll_s=7, launch_s=1.3, boot_s=20, wakes=Wakes()))
    said = values(SETTING, TRAINERS, how)
    assert said["as daemon: it looks"] == "every 7 s, and when a job comes or ends"
    assert said["its node trains"] == "20 s later the boot"
    assert said["a fragment starts"].startswith("1.3 s after the order")
    assert said["longest fragment"] == "24 h"


def test_without_trainers_there_are_no_costs() -> None:
    assert "growing costs" not in values(SETTING, (), None)
