from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from freetrain.cli.main import cli
from freetrain.replay.outcome import ShareOutcome, SiteOutcome, definitions
from freetrain.store import Store

SAMPLE_LOGS = Path(__file__).parents[2] / "sample_logs"
SMALL = SAMPLE_LOGS / "small-cluster.sacct.gz"

LOG = """JobID|State|Submit|Start|End|NNodes|NodeList
1|COMPLETED|2024-06-03T00:00:00|2024-06-03T00:00:00|2024-06-03T01:00:00|2|c[1-2]
2|COMPLETED|2024-06-03T00:00:00|2024-06-03T02:00:00|2024-06-03T05:00:00|1|c1
3|RUNNING|2024-06-03T04:00:00|2024-06-03T04:00:00|Unknown|1|c2
"""


def freetrain(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def outcome(*arguments: str | Path) -> dict[str, Any]:
    """What the holes allow, where the arguments do not ask for more."""
    result = freetrain("replay", "--as", "ideal", *arguments, "--json", "--no-report", "--no-store")
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(result.stdout)
    return document


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "site.psv"
    path.write_text(LOG)
    return path


def test_a_small_log_comes_out_as_reckoned_by_hand(log: Path) -> None:
    document = outcome(log, "--trainers", "preset:hpo", "--max-running", "2")
    figures = document["outcome"]
    # Window 01:00 to 04:00: c1 is idle for one hour, c2 for three.
    assert figures["idle_node_hours"] == figures["lent_node_hours"] == 4.0
    # Two trainers of one node each, one evicted at 02:00, none at the window's end.
    assert figures["samples"] == pytest.approx(2831.0 * (4 * 3600 - 12))
    assert figures["evictions"] == 1
    rows = document["log"]["rows"]
    assert (rows["read"], rows["used"], rows["ignored"], rows["rejected"]) == (3, 1, {"outside the window": 2}, 0)


def test_costs_can_be_replaced(log: Path) -> None:
    figures = outcome(log, "--trainers", "preset:hpo", "--max-running", "2", "--forced-loss", "0.5")["outcome"]
    assert figures["samples"] == pytest.approx(2831.0 * (4 * 3600 - 0.5))


@pytest.mark.parametrize(
    "name", ["small-cluster.sacct.gz", pytest.param("large-machine.swf.gz", marks=pytest.mark.soak)]
)
def test_sample_logs_replay_close_to_what_is_possible(name: str) -> None:
    figures = outcome(SAMPLE_LOGS / name, "--trainers", "preset:hpo")["outcome"]
    assert 0.95 < figures["u_oracle"] <= 1
    assert figures["useful_node_hours"] <= figures["lent_node_hours"] <= figures["idle_node_hours"]


def test_freetrain_beats_a_fair_equal_share_on_the_sample_log() -> None:
    by_policy = {
        policy: outcome(SMALL, "--policy", policy, "--trainers", "preset:hpo")["outcome"]["samples"]
        for policy in ("freetrain", "equal-share")
    }
    assert by_policy["freetrain"] > 1.005 * by_policy["equal-share"]


def test_a_replay_is_recorded_and_its_decisions_can_be_solved_again(tmp_path: Path) -> None:
    store = tmp_path / "runs.db"
    result = freetrain("replay", SMALL, "--as", "ideal", "--no-report", "--store", store, "--until", "2024-06-04")
    assert result.exit_code == 0, result.output
    run = json.loads(freetrain("runs", "--json", "--store", store).stdout)["runs"][0]["id"]
    shown = json.loads(freetrain("runs", "show", str(run), "--json", "--decisions", "--store", store).stdout)
    recorded = shown["decisions"][40]
    again = freetrain("solve", "--decision", f"{run}:{recorded['number']}", "--solver", "highs", "--store", store)
    assert json.loads(again.stdout)["objective"] == pytest.approx(recorded["objective"], rel=1e-9)


def test_a_report_is_written_where_it_is_wanted(log: Path, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    result = freetrain("replay", log, "--report", path, "--no-store")
    assert result.exit_code == 0, result.output
    assert path.read_text().startswith("<!DOCTYPE html>")
    assert str(path) in result.stdout


def test_the_summary_says_how_the_rows_add_up(log: Path) -> None:
    log.write_text(LOG + "4|COMPLETED|2024-06-03T00:00:00|yesterday|2024-06-03T05:00:00|1|c1\n5.batch|||||1|c1\n")
    result = freetrain("replay", log, "--no-report", "--no-store")
    assert "5 rows = 1 used + 3 ignored (1 job step, 2 outside the window) + 1 rejected" in result.stdout
    assert f"{log}:5:" in result.stderr


def test_bad_rows_and_an_empty_machine_are_warned_of_first(log: Path) -> None:
    rows = "".join(f"{n}|COMPLETED|2024-06-03T01:00:00|soon|2024-06-03T02:00:00|1|c1\n" for n in range(3, 5))
    log.write_text(LOG + rows)
    result = freetrain("replay", log, "--nodes", "64", "--trainers", "preset:hpo", "--no-report", "--no-store")
    warnings = [line for line in result.stdout.splitlines() if line.startswith("Warning: ")]
    assert result.stdout.startswith(warnings[0])
    assert "2 rows could not be used, 67 % of those that count" in warnings[0]
    assert "At least 95 % of the machine was idle for 3.0 hours" in warnings[1]
    assert "full hours" in result.stdout
    assert "without the 3 hours in which at least 95 %" in result.stdout
    assert "Window: 2024-06-03 01:00:00Z to 2024-06-03 04:00:00Z (3 hours), 64 nodes, " in result.stdout
    assert "\N{NO-BREAK SPACE}" not in result.stdout


def test_figures_with_and_without_empty_hours_are_for_programs_too(log: Path) -> None:
    options = ("--nodes", "64", "--trainers", "preset:hpo", "--max-running", "2")
    given = outcome(log, *options)["log"]["empty_hours"]
    assert (given["hours"], given["left_out"]) == (3.0, False)
    assert given["without"] == {"idle_node_hours": 0.0, "lent_node_hours": 0.0, "samples": 0.0}
    skipped = outcome(log, *options, "--skip-empty-hours")
    assert (skipped["log"]["empty_hours"]["left_out"], skipped["outcome"]["idle_node_hours"]) == (True, 0.0)


def test_the_readers_options_reach_the_reader(log: Path, tmp_path: Path) -> None:
    states = tmp_path / "events.psv"
    states.write_text("NodeName|TimeStart|TimeEnd|State\nc2|2024-06-03T01:00:00|2024-06-03T03:00:00|DOWN\n")
    held = tmp_path / "reservations.txt"
    held.write_text("ReservationName=m StartTime=2024-06-03T03:00:00 EndTime=2024-06-03T04:00:00 Nodes=c2\n")
    quiet = ("--trainers", "preset:hpo", "--max-running", "2")
    idle = [
        outcome(log, *quiet, *options)["outcome"]["idle_node_hours"]
        for options in ((), ("--node-states", states), ("--node-states", states, "--reservations", held))
    ]
    assert idle == [4.0, 2.0, 1.0]
    rejected(
        freetrain("replay", log, "--cluster", "x", "--no-report", "--no-store"), 2, "no job of the cluster 'x'"
    )
    rejected(
        freetrain("replay", log, "--delimiter", "?", "--no-report", "--no-store"), 2, "with '|', not with '?'"
    )


def test_nodes_that_fail_are_taken_back(log: Path) -> None:
    asked = ("--trainers", "preset:hpo", "--nodes", "8", "--from", "2024-06-03", "--until", "2024-06-04")
    whole, failing = (
        outcome(log, *asked, *options)["outcome"] for options in ((), ("--mtbf", "2h", "--repair", "60"))
    )
    assert failing["evictions"] > whole["evictions"] + 40
    assert failing["idle_node_hours"] < whole["idle_node_hours"]
    assert failing["work"] < whole["work"]
    rejected(freetrain("replay", log, "--mtbf", "5s", "--no-report", "--no-store"), 2, "shorter than 60 s")


def test_what_fits_and_is_lent_beside_jobs_is_told_where_it_is_asked(log: Path) -> None:
    head, two, one, running = LOG.strip().split("\n")
    log.write_text(f"{head}|NCPUS|AllocTRES\n{two}|16|\n{one}|2|cpu=2,gres/gpu=1\n{running}|1|cpu=1\n")
    asked = ("--trainers", "preset:hpo", "--from", "2024-06-03T00:00:00", "--share", "any", "--task", "cpu=3")
    shares = outcome(log, *asked)["shares"]
    assert shares["outcome"]["partly_fitting_task_hours"] == 2 * 2.0
    assert shares["outcome"]["partly_lent_task_hours"] == 2 * 2.0
    assert shares["replay"]["lent_node_hours"] == shares["replay"]["idle_node_hours"] == 2 * 2.0 + 4 * 2.0
    assert (shares["task"]["each"]["cpus"], shares["task"]["shortest_s"]) == (3, 120.0)
    store = log.with_name("runs.db")
    said = freetrain("replay", log, *asked, "--as", "ideal", "--no-report", "--store", store).stdout
    assert "if parts of nodes are lent, too: tasks of 3 CPUs" in said
    assert re.search(r"^all nodes +2 +4 +100.0% ", said, re.MULTILINE)
    kept = json.loads(freetrain("runs", "show", "1", "--json", "--store", store).stdout)["outcome"]["shares"]
    assert kept["outcome"] == shares["outcome"]
    assert kept["replay"]["lent_node_hours"] == shares["replay"]["lent_node_hours"]
    shown = freetrain("runs", "show", "1", "--store", store).stdout
    assert re.search(r"^shares\.outcome\.partly_lent_task_hours +4$", shown, re.MULTILINE)
    assert "shares.groups" not in shown, "rows of figures are for --json"
    compared = freetrain("runs", "compare", "1", "--store", store).stdout.splitlines()
    assert compared[0].endswith("parts: lent  parts: work")
    assert compared[1].split()[-2] == "100.0%"


def test_trainers_may_say_themselves_what_their_tasks_ask_for(log: Path, tmp_path: Path) -> None:
    """Of eight CPUs two are held for two hours: tasks of three and of two have room there, as shares say."""
    head, two, one, running = LOG.strip().split("\n")
    log.write_text(f"{head}|NCPUS|AllocTRES\n{two}|16|\n{one}|2|cpu=2\n{running}|1|cpu=1\n")
    trainers = tmp_path / "trainers.toml"
    text = '[[trainers]]\nid = "{0}"\nthroughput = [[1, 1.0], [9, 9.0]]\ntask = "{1}"\n'
    some = (("a", "cpu=3"), ("b", "cpu=2,mem=1M"))
    trainers.write_text('format = "freetrain-trainers/1"\n' + "".join(text.format(*one) for one in some))
    asked = ("--trainers", trainers, "--from", "2024-06-03T00:00:00", "--share", "any", "--as", "ideal")
    shares = outcome(log, *asked)["shares"]
    assert 10.0 <= shares["outcome"]["partly_lent_cpu_hours"] <= 12.0
    assert shares["outcome"]["partly_lent_task_hours"] == shares["outcome"]["partly_lent_cpu_hours"]
    said = freetrain("replay", log, *asked, "--no-report", "--no-store").stdout
    assert "too: their own tasks, counted in tasks of 1 CPU" in " ".join(said.split())
    share = ("--share", "gpus", "--no-report", "--no-store")
    rejected(freetrain("replay", log, "--trainers", trainers, *share), 2, "asks for no GPU")


def test_a_task_larger_than_every_node_is_told(log: Path) -> None:
    head, two, one, running = LOG.strip().split("\n")
    log.write_text(f"{head}|NCPUS|AllocTRES\n{two}|16|\n{one}|2|cpu=2,gres/gpu=1\n{running}|1|cpu=1\n")
    asked = ("--trainers", "preset:hpo", "--share", "any", "--as", "ideal", "--no-report", "--no-store")
    said = "No node is known to have as much as a task asks for: 64 GPUs, 1 CPU."
    assert said in freetrain("replay", log, *asked, "--task", "gres/gpu=64").stdout
    assert "No node is known" not in freetrain("replay", log, *asked, "--task", "cpu=2").stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--task", "cpu=1"), "Add --share gpus or any."),
        (("--share", "gpus", "--task", "cpu=4"), "Add gres/gpu=1, or say --share any."),
        (("--share", "any", "--task", "cpus=4"), "'cpus=4' is no amount"),
        (("--share", "any", "--task", "gres/gpu:a100=1"), "write gres/gpu=1"),
    ],
)
def test_a_task_that_cannot_be_counted_is_refused(log: Path, options: tuple[str, ...], said: str) -> None:
    rejected(freetrain("replay", log, *options, "--no-report", "--no-store"), 2, said)


def test_every_figure_is_defined_one_flag_away_and_in_the_docs() -> None:
    printed = freetrain("replay", "--definitions").stdout
    documented = (Path(__file__).parents[2] / "docs/reference/figures.md").read_text()
    for name in (*definitions(), *definitions(SiteOutcome), *definitions(ShareOutcome)):
        assert name in printed
        assert f"`{name}`" in documented


def test_idle_parts_of_used_nodes_are_told_beside_the_holes(log: Path) -> None:
    tres = "billing=9,cpu=2,gres/gpu:a100=1,gres/gpu=1,mem=8G"
    head, two, one, running = LOG.strip().split("\n")
    log.write_text(f"{head}|NCPUS|AllocTRES\n{two}|16|\n{one}|2|{tres}\n{running}|1|cpu=1,mem=1G\n")
    whole_day = ("--trainers", "preset:hpo", "--from", "2024-06-03T00:00:00")
    shares = outcome(log, *whole_day)["shares"]
    # Until 04:00 the second job holds 2 of 8 CPUs for two hours, and nobody is on c2.
    assert shares["outcome"] == {
        "partly_used_node_hours": 2.0,
        "partly_idle_cpu_hours": 12.0,
        "partly_idle_memory_gib_hours": 0.0,
        "partly_idle_gpu_hours": 0.0,
        "idle_nodes_cpu_hours": 32.0,
        "idle_nodes_memory_gib_hours": 8.0,
        "idle_nodes_gpu_hours": 1.0,
        "held_unknown_node_hours": 0.0,
        **{
            f"{where}_{what}_task_hours": None
            for where in ("partly", "idle_nodes")
            for what in ("fitting", "lent", "useful")
        },
        "partly_lent_cpu_hours": None,
        "partly_lent_gpu_hours": None,
    }
    assert (shares["task"], shares["replay"]) == (None, None)
    assert shares["at_least"] == ["cpus", "memory", "gpus"]
    assert [(group["what"], group["name"], group["nodes"]) for group in shares["groups"]] == [("GPU", "a100", 1)]
    said = freetrain("replay", log, *whole_day, "--as", "ideal", "--no-report", "--no-store").stdout
    assert "parts of nodes that jobs used" in said
    assert outcome(SMALL, "--until", "2024-06-03T12:00:00", "--trainers", "preset:hpo")["shares"] is not None


def test_as_daemon_less_is_lent_than_the_holes_allow_and_the_site_feels_it(log: Path) -> None:
    document = outcome(log, "--as", "daemon", "--trainers", "preset:hpo")
    ideal, daemon, site = document["outcome"], document["as_daemon"]["outcome"], document["as_daemon"]["site"]
    assert 0 < daemon["useful_node_hours"] < daemon["lent_node_hours"] < ideal["lent_node_hours"]
    assert site["site_delay_s"] <= 2.0 * site["site_delayed"] <= 2.0 * site["site_starts"]
    assert outcome(log)["as_daemon"] is None


def test_forecasts_are_scored_for_programs_too(log: Path) -> None:
    document = outcome(log, "--as", "daemon", "--trainers", "preset:hpo", "--foresight", "plan")
    assert document["settings"]["foresight"] == "plan"
    for score in (document["forecast"], document["as_daemon"]["forecast"]):
        assert {"ahead_s", "forecasts", "expected", "came"} == set(score["calibration"][0])
        assert set(score) == {"calibration", "learned", "planned", "plans"}


def test_what_the_holes_allow_comes_first_and_then_the_daemon_unless_it_is_not_wanted(log: Path) -> None:
    said = freetrain("replay", log, "--no-report", "--no-store").stdout
    assert said.index("What the holes allow") < said.index("What the daemon would have got")
    assert "found fragments there" in said
    alone = freetrain("replay", log, "--as", "ideal", "--no-report", "--no-store").stdout
    assert "the daemon" not in alone


def test_what_the_daemon_would_have_got_is_recorded_too(log: Path, tmp_path: Path) -> None:
    store = tmp_path / "runs.db"
    freetrain("replay", log, "--no-report", "--store", store)
    run = json.loads(freetrain("runs", "show", "1", "--json", "--store", store).stdout)
    assert run["settings"]["as"] == "daemon"
    assert 0 < run["outcome"]["as_daemon"]["outcome"]["u_work"] < run["outcome"]["u_work"]
    assert run["outcome"]["as_daemon"]["site"]["site_starts"] > 0


def test_looks_that_are_far_apart_leave_idle_what_was_idle(log: Path) -> None:
    options = ("--trainers", "preset:hpo", "--max-running", "2", "--from", "2024-06-03T00:50")
    at_once, late = (outcome(log, *options, "--poll", poll)["outcome"] for poll in ("0", "1500"))
    assert late["idle_node_hours"] == at_once["idle_node_hours"] == 4.0
    assert late["dedicated_work"] == at_once["dedicated_work"]
    assert late["lent_node_hours"] < at_once["lent_node_hours"]
    assert late["u_work"] < at_once["u_work"]


def test_work_is_counted_in_the_objectives_unit(log: Path) -> None:
    trainers = ("--trainers", "preset:hpo", "--max-running", "2")
    samples, speedups = (
        outcome(log, *trainers, "--objective", name)["outcome"] for name in ("throughput", "speedup")
    )
    assert samples["work"] == pytest.approx(samples["samples"])
    assert speedups["work"] == pytest.approx(speedups["samples"] / 2831.0)
    assert samples["u_work"] == pytest.approx(samples["u_dedicated"])
    assert speedups["u_work"] == pytest.approx(speedups["work"] / speedups["dedicated_work"])


def test_prices_make_money_of_it(log: Path, tmp_path: Path) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text("[prices]\ngpus_per_node = 4\nper_gpu_hour = 2.0\n")
    worth = outcome(log, "--prices", prices)["worth"]
    assert worth["value"] == pytest.approx(2 * worth["gpu_hours"])
    assert outcome(log)["worth"] is None
    said = freetrain("replay", log, "--as", "ideal", "--prices", prices, "--no-report", "--no-store").stdout
    assert "GPU-hours trained" in said


def test_prices_of_the_daemons_settings_count(log: Path, tmp_path: Path) -> None:
    settings = tmp_path / "freetrain.toml"
    settings.write_text("[lend]\nmargin = 30\n[prices]\ngpus_per_node = 4\n")
    named = outcome(log, "--prices", settings)["worth"]
    as_daemon = outcome(log, "--as", f"daemon={settings}")["worth"]
    assert named["gpu_hours"] > 0
    assert as_daemon["gpu_hours"] > 0


def test_electricity_counts_by_what_the_site_says_that_nodes_take(log: Path, tmp_path: Path) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text("[prices]\nwatts_per_node = 1000\n")
    dear = outcome(log, "--prices", prices, "--objective", "speedup,energy=3700")
    cheap = outcome(log, "--prices", prices, "--objective", "speedup,energy=360")
    assert dear["outcome"]["lent_node_hours"] == 0.0, "a first node is worth 3,600 s for each kWh"
    assert cheap["worth"]["energy_kwh"] == pytest.approx(cheap["outcome"]["lent_node_hours"])


@pytest.mark.parametrize("how", ["ideal", "daemon"])
def test_electricity_that_nobody_knows_cannot_count(log: Path, how: str) -> None:
    done = freetrain("replay", log, "--as", how, "--objective", "speedup,energy=3700", "--no-store", "--no-report")
    assert done.exit_code == 2
    assert "counts electricity, and nobody says what nodes take." in done.stderr


def test_a_file_without_prices_is_refused(log: Path, tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text("[prices]\nper_kwh = 0.3\n")
    done = freetrain("replay", log, "--prices", tmp_path / "prices.toml", "--no-store")
    assert done.exit_code == 2
    assert "gpus_per_node, watts_per_node or watts_of" in done.stderr


def test_the_report_bears_the_machines_name(log: Path, tmp_path: Path) -> None:
    machine, path = tmp_path / "machine.toml", tmp_path / "report.html"
    machine.write_text('name = "Hall 7"\n[[pools]]\nname = "a"\nnodes = "c[1-2]"\n')
    for options, title in (((), "site.psv"), (("--machine", machine), "Hall 7"), (("--title", "Ours"), "Ours")):
        freetrain("replay", log, "--as", "ideal", *options, "--report", path, "--no-store")
        assert f"<title>{title}: " in path.read_text()


def test_the_daemons_settings_count_in_a_replay_as_the_daemon(log: Path, tmp_path: Path) -> None:
    settings = tmp_path / "freetrain.toml"
    settings.write_text("[lend]\nmost_nodes = 1\n")
    few, all_ = (
        outcome(log, "--as", how, "--trainers", "preset:hpo")["as_daemon"]["outcome"]["lent_node_hours"]
        for how in (f"daemon={settings}", "daemon")
    )
    assert few < all_


def test_a_sites_own_objective_decides(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own_objective.py").write_text(
        "def deadline(trainer):\n    return [10.0 * rate for rate in trainer.samples_per_s]\n"
    )
    document = outcome(log, "--objective", "own_objective:deadline")
    assert document["settings"]["objective"] == "own_objective:deadline"
    assert document["outcome"]["samples"] > 0


def rejected(result: Result, exit_code: int, complaint: str) -> None:
    assert result.exit_code == exit_code, result.output
    assert complaint in result.stderr
    assert "Traceback" not in result.output


def test_bad_input_ends_with_a_sentence(log: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("")
    other = tmp_path / "access.log"
    other.write_text('10.0.0.1 - - [03/Jun/2024] "GET / HTTP/1.1" 200 45\n' * 5)
    cut = tmp_path / "cut.gz"
    cut.write_bytes(gzip.compress(LOG.encode() * 50)[:-40])
    rejected(freetrain("replay", empty), 2, "empty")
    rejected(freetrain("replay", other), 2, "access.log")
    rejected(freetrain("replay", cut), 2, "cut")
    rejected(freetrain("replay", tmp_path / "none"), 2, "none")
    rejected(freetrain("replay", log, "--nodes", "1"), 2, "1")
    rejected(freetrain("replay", log, "--trainers", "preset:nas"), 2, "no preset 'nas'")
    rejected(freetrain("replay", log, "--objective", "fastest"), 2, "no objective 'fastest'")
    rejected(freetrain("replay", log, "--from", "noon"), 2, "noon")
    for how in ("magic", "daemon=", "ideal="):
        rejected(freetrain("replay", log, "--as", how), 2, f"--as {how} is not a way to replay")
    rejected(freetrain("replay", log, "--max-running", "1" + "0" * 20), 2, "is not in the range 1<=x<=100000")
    rejected(freetrain("replay", log, "--as", f"daemon={other}"), 78, "access.log")
    rejected(freetrain("replay", log, "--strict", "--store", empty / "x" / "db"), 74, "empty")


def test_an_unwritable_report_ends_with_a_sentence(log: Path) -> None:
    rejected(freetrain("replay", log, "--no-store", "--report", log / "report.html"), 74, "report.html")
    result = freetrain("replay", log, "--no-store", "--report", log.parent)
    rejected(result, 74, f"No report can be written to {log.parent}: it is a directory.")
    assert result.stdout == ""


def test_a_defect_shows_no_traceback_unless_asked(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("oops")

    monkeypatch.setattr("freetrain.cli.replay.study", broken)
    rejected(freetrain("replay", log, "--no-store"), 1, "defect in freetrain")
    assert isinstance(freetrain("--debug", "replay", log, "--no-store").exception, KeyError)


def first_placement(tmp_path: Path, *options: str | Path) -> set[str]:
    """Nodes that the first decision of a replay gives away, whose only trainer can use two of four."""
    store, log, trainers = tmp_path / "runs.db", tmp_path / "site.psv", tmp_path / "trainers.toml"
    log.write_text(LOG.replace("c[1-2]", "c[1-4]").replace("|2|c[", "|4|c["))
    trainers.write_text(
        'format = "freetrain-trainers/1"\n[[trainers]]\nid = "A"\nthroughput = [[1, 1.0], [2, 2.0]]\n'
    )
    result = freetrain("replay", log, "--no-report", "--store", store, "--trainers", trainers, *options)
    assert result.exit_code == 0, result.output
    _, decision = Store.open_existing(store).decision(1, 1)
    return set(decision.placement["A"])


def test_a_replay_places_by_the_switches_of_its_machine_file(tmp_path: Path) -> None:
    machine = tmp_path / "machine.toml"
    machine.write_text(
        'name = "m"\n[[pools]]\nname = "a"\nnodes = "c[1]"\nnodes_per_leaf = 4\n'
        '[[pools]]\nname = "b"\nnodes = "c[2-4]"\nnodes_per_leaf = 2\n'
    )
    assert first_placement(tmp_path, "--machine", machine, "--place", "ring") == {"c2", "c3"}
    (tmp_path / "runs.db").unlink()
    assert first_placement(tmp_path, "--machine", machine) == {"c1", "c2"}


@pytest.mark.parametrize("played_as", ["ideal", "daemon"])
def test_a_replay_reserves_the_bandwidth_of_its_machine_file(tmp_path: Path, played_as: str) -> None:
    """A ring of two needs 7.6 Gbit/s."""
    machine, trainers, log = tmp_path / "machine.toml", tmp_path / "trainers.toml", tmp_path / "site.psv"
    log.write_text(LOG.replace("c[1-2]", "c[1-4]").replace("|2|c[", "|4|c["))
    ring = "throughput = [[1, 100.0], [2, 190.0]]\nbytes_per_sample = 1e7\n"
    trainers.write_text(f'format = "freetrain-trainers/1"\n[[trainers]]\nid = "A"\n{ring}')
    work = []
    for gbit in (10, 5):
        links = f"[links]\nnode_gbit = {gbit}\n"
        machine.write_text(f'name = "m"\n{links}[[pools]]\nname = "a"\nnodes = "c[1-4]"\n')
        options = ("--no-report", "--no-store", "--json", "--policy", "gadget", "--as", played_as)
        result = freetrain("replay", log, "--machine", machine, "--trainers", trainers, *options)
        assert result.exit_code == 0, result.output
        document = json.loads(result.stdout)
        outcome = document["outcome"] if played_as == "ideal" else document["as_daemon"]["outcome"]
        work.append(outcome["samples"])
    assert work[1] < 0.6 * work[0]


def test_a_replay_refuses_a_placer_that_is_not_there_before_it_reads_the_log(tmp_path: Path) -> None:
    result = freetrain("replay", tmp_path / "missing.psv", "--place", "nearby", "--no-store", "--no-report")
    assert result.exit_code == 2
    assert "There is no placer 'nearby'" in result.output
