from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from freetrain.cli.curve import curve_command
from freetrain.cli.main import cli
from freetrain.config import Config
from freetrain.core.trainer import KindChoice
from freetrain.daemon.reports.status import LookStatus, StatusFile, TrainerStatus
from freetrain.elastic.on_disk.progress import ProgressWriter
from freetrain.errors import InputError
from freetrain.replay.trainers import read_trainers
from freetrain.slurm.tags import Tag, parse_tag


def write_rate(path: Path, nodes: int, world: int, samples_per_s: float, **more: float) -> None:
    facts = {
        "generation": 1,
        "step": 1,
        "epoch": 0,
        "samples_done": 1,
        "samples": 1,
        "elapsed_s": 5.0,
        "step_s": 0.1,
    }
    parts = {"compute_s": 0.1, "communication_s": 0.0, "data_wait_share": 0.0}
    ProgressWriter(path).write_event(
        "rate", nodes=nodes, world=world, samples_per_s=samples_per_s, **facts | more, **parts
    )


def curve(trainer: Path, *options: str) -> Result:
    done = CliRunner().invoke(curve_command, [str(trainer), *options], catch_exceptions=False)
    assert done.exit_code == 0
    return done


def measured(trainer: Path) -> list[list[str]]:
    """Size, throughput and throughput of each part of the sizes that were measured."""
    lines = [line.split() for line in curve(trainer).output.splitlines()]
    return [cells[:3] for cells in lines if len(cells) == 7 and cells[3] == "5.0"]


def test_nodes_that_always_have_the_same_workers_are_shown_by_nodes(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    write_rate(path, nodes=1, world=4, samples_per_s=100.0)
    write_rate(path, nodes=2, world=8, samples_per_s=180.0)
    assert measured(tmp_path) == [["1", "100", "100"], ["2", "180", "90"]]
    assert json.loads(curve(tmp_path, "--json").output)["by"] == "nodes"


def test_two_and_three_workers_of_one_node_are_not_the_same(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    write_rate(path, nodes=1, world=2, samples_per_s=100.0)
    write_rate(path, nodes=1, world=3, samples_per_s=135.0)
    assert measured(tmp_path) == [["2", "100", "50"], ["3", "135", "45"]]
    assert "By workers" in curve(tmp_path).output
    assert json.loads(curve(tmp_path, "--json").output)["by"] == "workers"


def test_of_trainings_that_are_started_anew_the_longest_save_and_start_are_told(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    write_rate(path, nodes=1, world=1, samples_per_s=100.0)
    assert "to save" not in curve(tmp_path).output
    facts = {"generation": 2, "step": 1, "nodes": 1, "world": 1, "cause": "join"}
    ProgressWriter(path).write_event("rescale", pause_s=9.0, save_s=4.0, start_s=5.0, **facts)
    ProgressWriter(path).write_event("rescale", pause_s=8.0, save_s=5.5, start_s=2.5, **facts)
    assert (
        "took up to 5.5 s to save and end.\nNew ones took up to 5 s to their first step." in curve(tmp_path).output
    )
    assert json.loads(curve(tmp_path, "--json").output)["rescales"][0]["save_s"] == 4.0


def test_a_saved_curve_is_a_trainer_for_replays_with_what_changes_were_seen_to_cost(tmp_path: Path) -> None:
    directory, saved = tmp_path / "bert", tmp_path / "bert.json"
    directory.mkdir()
    path = directory / "progress.jsonl"
    write_rate(path, nodes=1, world=4, samples_per_s=100.0)
    write_rate(path, nodes=2, world=8, samples_per_s=180.0)
    facts = {"generation": 2, "step": 1, "nodes": 2, "world": 8}
    ProgressWriter(path).write_event("rescale", pause_s=2.5, cause="join", **facts)
    ProgressWriter(path).write_event("rescale", pause_s=8.5, cause="loss", **facts)
    curve(directory, "--save", str(saved), "--nodes", "2")
    (trainer,) = read_trainers(saved)
    assert trainer.id == "bert"
    assert trainer.throughput == ((1, 100.0), (2, 180.0))
    assert (trainer.scale_up_s, trainer.scale_down_s, trainer.forced_loss_s) == (1.5, 0.5, 4.5)


def test_a_curve_by_workers_is_no_trainer_for_replays(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    write_rate(path, nodes=1, world=2, samples_per_s=100.0)
    write_rate(path, nodes=1, world=3, samples_per_s=135.0)
    done = CliRunner().invoke(curve_command, [str(tmp_path), "--save", str(tmp_path / "saved.json")])
    assert isinstance(done.exception, InputError)
    assert not (tmp_path / "saved.json").exists()


def write_served(path: Path, workers: int, servers: int, nodes: int = 0) -> None:
    """Steps of 50 samples that take 1/w + 0.2 w/p + 0.02 w + 0.02 p seconds, ten of them."""
    step_s = 1 / workers + 0.2 * workers / servers + 0.02 * workers + 0.02 * servers
    facts = {"elapsed_s": 10 * step_s, "step_s": step_s, "samples": 500, "servers": servers}
    write_rate(path, nodes or workers, workers, 50 / step_s, **facts)


def test_with_servers_smds_model_says_how_many_workers_and_servers_are_fastest(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    for size in ((1, 1), (2, 1), (3, 1), (2, 2)):
        write_served(path, *size)
    assert "3 workers, 1 servers: 1.013 s per step." in curve(tmp_path).output.replace("1.01 s", "1.013 s")
    assert "needs 1 more sizes of them to be fitted" in curve(tmp_path).output
    write_served(path, 3, 4)
    printed = curve(tmp_path).output
    assert "SMD's model, 0% off at most: fastest with 5 workers and 7 servers" in printed
    (line,) = (line for line in printed.splitlines() if line.startswith("For its tag: "))
    tag = parse_tag("freetrain:" + line.removeprefix("For its tag: "))
    assert isinstance(tag, Tag)
    assert tag.servers == 8
    assert tag.step_s_by_size == pytest.approx((1.0, 0.0, 0.2, 0.02, 0.02), abs=2e-6)


def test_the_model_for_a_tag_counts_nodes_and_not_workers(tmp_path: Path) -> None:
    """Two workers on a node: n nodes make steps of 1/(2n) + 0.2·2n/p + 0.02·2n + 0.02 p seconds."""
    path = tmp_path / "progress.jsonl"
    for nodes, servers in ((1, 1), (2, 1), (3, 1), (2, 2), (3, 4)):
        write_served(path, 2 * nodes, servers, nodes)
    (line,) = (line for line in curve(tmp_path).output.splitlines() if line.startswith("For its tag: "))
    tag = parse_tag("freetrain:" + line.removeprefix("For its tag: "))
    assert isinstance(tag, Tag)
    assert tag.step_s_by_size == pytest.approx((0.5, 0.0, 0.4, 0.04, 0.02), abs=2e-6)


def test_without_servers_nothing_is_told_of_them(tmp_path: Path) -> None:
    write_rate(tmp_path / "progress.jsonl", nodes=1, world=4, samples_per_s=100.0)
    assert "servers" not in curve(tmp_path).output


LOG = """JobID|State|Submit|Start|End|NNodes|NodeList
1|COMPLETED|2024-06-03T00:00:00|2024-06-03T00:00:00|2024-06-03T01:00:00|2|c[1-2]
2|COMPLETED|2024-06-03T00:00:00|2024-06-03T05:00:00|2024-06-03T06:00:00|2|c[1-2]
"""
LEARNED = TrainerStatus("7", "ann", "active", speeds={"a100": 1.0, "v100": 0.25}, seen_rates={1: 100.0, 2: 180.0})


@pytest.fixture
def of_kinds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A trainer that ran on nodes of two kinds, of which its daemon has published what it has learned."""
    (tmp_path / "freetrain.toml").write_text(f"[state]\ndirectory = '{tmp_path}'\n")
    monkeypatch.setenv("FREETRAIN_CONFIG", str(tmp_path / "freetrain.toml"))
    look = LookStatus(1.0, 0.1, trainers=(LEARNED, replace(LEARNED, id="8", speeds={}, seen_rates={})))
    StatusFile(tmp_path, 30.0, False).looked(Config(), look)
    trainer = tmp_path / "bert"
    trainer.mkdir()
    for rate in (180.0, 45.0):  # on a100, then on v100, with half of the workers on each node
        write_rate(trainer / "progress.jsonl", nodes=2, world=8 if rate > 100 else 4, samples_per_s=rate)
    return trainer


def test_what_was_learned_of_kinds_of_nodes_is_for_the_tag(of_kinds: Path) -> None:
    printed = curve(of_kinds, "--job", "7").output
    (line,) = (line for line in printed.splitlines() if line.startswith("For its tag: "))
    assert parse_tag("freetrain:" + line.removeprefix("For its tag: ")) == Tag(
        speeds=(("a100", 1.0), ("v100", 0.25))
    )
    assert json.loads(curve(of_kinds, "--job", "7", "--json").output)["speeds"] == {"a100": 1.0, "v100": 0.25}


def test_a_saved_curve_is_at_speed_1_with_the_speeds_of_kinds_beside_it(of_kinds: Path, tmp_path: Path) -> None:
    curve(of_kinds, "--job", "7", "--save", str(tmp_path / "saved.json"), "--nodes", "2")
    (trainer,) = read_trainers(tmp_path / "saved.json")
    assert trainer.throughput == ((1, 100.0), (2, 180.0))
    assert trainer.choices == (KindChoice(("a100",), 1.0), KindChoice(("v100",), 0.25), KindChoice(("",), 1.0))


@pytest.mark.parametrize("how", ["ideal", "daemon"])
@pytest.mark.parametrize(("pool", "slower"), [("v100", 4.0), ("a100", 1.0), ("cpu", 1.0), (None, 1.0)])
def test_a_replay_trains_it_as_fast_as_it_is_on_the_nodes_of_the_log(
    of_kinds: Path, tmp_path: Path, how: str, pool: str | None, slower: float
) -> None:
    curve(of_kinds, "--job", "7", "--save", str(tmp_path / "saved.json"), "--nodes", "2")
    (tmp_path / "site.psv").write_text(LOG)
    options = ["--trainers", str(tmp_path / "saved.json"), "--as", how, "--json", "--no-report", "--no-store"]
    if pool:
        machine = f'name = "site"\n[[pools]]\nname = "{pool}"\nnodes = "c[1-2]"\ncores = 4\n'
        (tmp_path / "machine.toml").write_text(machine)
        options += ["--machine", str(tmp_path / "machine.toml")]
    result = CliRunner().invoke(cli, ["replay", str(tmp_path / "site.psv"), *options], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    figures = found["as_daemon"]["outcome"] if how == "daemon" else found["outcome"]
    assert figures["samples"] == pytest.approx(180.0 / slower * 4 * 3600, rel=0.05)


def test_of_a_job_of_which_nothing_was_learned_that_is_said(of_kinds: Path) -> None:
    for job, why in (("9", "has published nothing of a training 9"), ("8", "names no kinds of nodes")):
        done = CliRunner().invoke(curve_command, [str(of_kinds), "--job", job])
        assert isinstance(done.exception, InputError)
        assert why in done.exception.what


def test_what_hangs_or_never_ends_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    os.mkfifo(path)
    assert "is not a plain file" in CliRunner().invoke(cli, ["curve", str(tmp_path)]).stderr
    path.unlink()
    path.symlink_to("/dev/zero")
    assert "is not a plain file" in CliRunner().invoke(cli, ["curve", str(tmp_path)]).stderr
