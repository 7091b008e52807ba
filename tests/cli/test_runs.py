from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner

from freetrain.cli.listing import flatten, print_json, print_table
from freetrain.cli.runs import runs_group
from freetrain.errors import InputError, StateError
from freetrain.showing.words import show_time, show_value
from freetrain.store import Store
from tests.store.samples import OUTCOME, PROBLEM, RECORDS, decide, new_run


@pytest.fixture
def path(tmp_path):
    """A store with a complete and an interrupted run."""
    path = tmp_path / "runs.db"
    store = Store.open(path)
    with store.begin_run(new_run("replay [bold]first.log")) as run:
        for _ in range(30):
            run.record(PROBLEM, decide())
        run.finish(OUTCOME, RECORDS, 1.7e9 + 60)
    with store.begin_run(new_run("replay second.log")) as run:
        run.record(PROBLEM, decide(solver="highs"))
    return path


def freetrain_runs(*arguments):
    result = CliRunner().invoke(runs_group, [str(each) for each in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def row(output, first_words):
    (line,) = (
        line for line in output.splitlines() if line.split()[: len(first_words.split())] == first_words.split()
    )
    return line


def test_the_list_shows_the_newest_run_first(path):
    lines = freetrain_runs("--store", path).splitlines()
    assert lines[0].split() == ["ID", "STARTED", "COMMAND", "STATUS", "WINDOW", "DECISIONS", "NODE-HOURS", "U"]
    assert "replay second.log" in lines[1]
    assert "interrupted" in lines[1]
    assert re.split(r"  +", lines[2].strip()) == [
        "1",
        "2023-11-14 22:13:20Z",
        "replay [bold]first.log",
        "complete",
        "2024-01-01 to 2024-01-02",
        "30",
        "12.5",
        "0.875",
    ]


def test_the_list_takes_what_all_listings_take(path):
    listed = freetrain_runs("--store", path, "-P", "--format", "id,status", "-h")
    assert listed == "2|interrupted\n1|complete\n"
    assert freetrain_runs("--store", path, "--csv", "-o", "id,command").splitlines()[0] == "ID,COMMAND"
    assert "Usage:" in freetrain_runs("show", "-h"), "which is no listing"


def test_the_list_as_json_has_a_versioned_format(path):
    document = json.loads(freetrain_runs("--store", path, "--json"))
    assert document["format"] == "freetrain-runs/1"
    assert [run["status"] for run in document["runs"]] == ["interrupted", "complete"]
    assert document["runs"][1]["outcome"] == OUTCOME


def test_a_store_without_runs_is_told(tmp_path):
    Store.open(tmp_path / "runs.db")
    assert freetrain_runs("--store", tmp_path / "runs.db") == "No run has been recorded yet.\n"


def test_a_run_is_shown_with_settings_outcome_and_trainers(path):
    output = freetrain_runs("show", "1", "--store", path)
    assert row(output, "command").split(maxsplit=1)[1].strip() == "replay [bold]first.log"
    assert row(output, "heuristic").split() == ["heuristic", "30"]
    assert row(output, "solver.threads").split()[-1] == "2"
    assert row(output, "harm.jobs").split()[-1] == "0"
    assert row(output, "resnet").split()[:5] == ["resnet", "1,000,000", "12.5", "3", "4"]
    assert output.index("resnet") < output.index("bert")
    assert "Decisions" not in output


def test_an_interrupted_run_is_shown_as_far_as_it_got(path):
    output = freetrain_runs("--store", path, "show", "2")
    assert row(output, "status").split()[-1] == "interrupted"
    assert "Outcome" not in output


def test_decisions_are_listed_up_to_the_limit(path):
    output = freetrain_runs("show", "1", "--decisions", "--store", path)
    assert "Decisions (20 of 30; --limit 0 shows all)" in output
    assert "said the test" in output
    everything = freetrain_runs("show", "1", "--decisions", "--limit", "0", "--store", path)
    assert everything.count("said the test") == 30


@pytest.mark.parametrize("order", [("show", "1", "--json", "--store"), ("--json", "show", "1", "--store")])
def test_a_run_as_json_has_a_versioned_format(path, order):
    document = json.loads(freetrain_runs(*order, path))
    assert document["format"] == "freetrain-run/1"
    assert document["settings"] == new_run().settings
    assert document["trainers"][0]["samples"] == 1e6
    assert "decisions" not in document


def test_decisions_as_json_are_complete_whatever_the_limit(path):
    document = json.loads(freetrain_runs("show", "1", "--json", "--decisions", "--store", path))
    assert [each["number"] for each in document["decisions"]] == list(range(1, 31))


def test_the_store_may_be_named_by_the_environment(path, monkeypatch):
    monkeypatch.setenv("FREETRAIN_STORE", str(path))
    assert "second.log" in freetrain_runs()


def test_what_is_not_there_is_a_freetrain_error(path, tmp_path):
    with pytest.raises(InputError, match="There is no run 7; there is 1–2"):
        freetrain_runs("show", "7", "--store", path)
    with pytest.raises(StateError, match="No run has been recorded yet"):
        freetrain_runs("--store", tmp_path / "none.db")


def test_values_are_shown_for_people():
    shown = [show_value(value) for value in (None, True, 12345, 0.123456, 98765.4, float("inf"), "x", [1, 2])]
    assert shown == ["–", "yes", "12,345", "0.1235", "98,765", "inf", "x", "[1, 2]"]
    assert show_time(None) == "–"
    assert show_time(0) == "1970-01-01 00:00:00Z"
    assert list(flatten({"a": 1, "b": {"c": {"d": 2}, "e": {}}})) == [("a", 1), ("b.c.d", 2), ("b.e", {})]


def test_json_has_null_where_it_knows_no_number(capsys):
    print_json({"a": [float("nan"), 1.5], "b": {"c": float("inf")}})
    assert json.loads(capsys.readouterr().out) == {"a": [None, 1.5], "b": {"c": None}}


def test_a_table_in_a_pipe_is_neither_coloured_nor_cut(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "20")
    print_table(("name", "n"), [("x" * 300, "1")], right=("n",))
    output = capsys.readouterr().out
    assert "\x1b" not in output
    assert "x" * 300 in output


@pytest.mark.parametrize(("no_color", "styled"), [("", True), ("1", False)])
def test_a_table_on_a_terminal_is_styled_unless_no_color_is_set(capsys, monkeypatch, no_color, styled):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", no_color)
    print_table(("name",), [("x",)])
    assert ("\x1b" in capsys.readouterr().out) is styled


@pytest.mark.parametrize(("options", "styled"), [([], True), (["--no-color"], False)])
def test_a_listing_on_a_terminal_is_styled_unless_no_color_is_asked_for(
    capsys, monkeypatch, path, options, styled
):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    runs_group.main(["--store", str(path), *options], standalone_mode=False)
    assert ("\x1b" in capsys.readouterr().out) is styled


def test_what_belongs_to_a_listing_heeds_its_no_color(capsys, monkeypatch, path):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    runs_group.main(["--store", str(path), "--no-color", "show", "1"], standalone_mode=False)
    assert "\x1b" not in capsys.readouterr().out
