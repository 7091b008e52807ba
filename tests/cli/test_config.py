"""``freetrain config show``, ``diff`` and ``init``."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from freetrain.cli.main import cli
from freetrain.config import Config, load_config
from freetrain.errors import ExitCode
from tests.cli.planted_site import PlantedSite


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "freetrain.toml"
    path.write_text('[lend]\nmode = "act"\nmargin = "2m"\n')
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "10-site.toml").write_text("[lend]\nmargin = 60\nreserve_nodes = 2\n")
    return path


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlantedSite:
    site = PlantedSite(tmp_path)
    monkeypatch.setattr("freetrain.cli.config.OpenedWhenAsked", lambda *_: site)
    monkeypatch.setattr("freetrain.cli.config.daemons_account", lambda _: "freetrain")
    return site


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["config", *map(str, arguments)])


def test_what_is_shown_is_a_file_that_says_the_same(path: Path) -> None:
    shown = run("show", "--config", path).stdout
    assert Config.model_validate(tomllib.loads(shown)) == load_config(path).config


def test_each_value_is_shown_with_the_file_that_it_comes_from(path: Path) -> None:
    shown = run("show", "--origin", "--config", path).stdout
    lines = {line.partition(" = ")[0]: line for line in shown.splitlines()}
    assert lines["mode"].endswith(f"# {path}")
    assert lines["margin"].endswith("conf.d/10-site.toml")
    assert lines["poll"].endswith("# default")
    document = json.loads(run("show", "--json", "--config", path).stdout)
    (mode,) = [each for each in document["settings"] if each["setting"] == "lend.mode"]
    assert mode == {"setting": "lend.mode", "value": "act", "default": "observe", "from": str(path)}


def test_what_differs_from_the_defaults_is_listed(path: Path) -> None:
    rows = [line.split() for line in run("diff", "--config", path).stdout.splitlines()]
    assert rows[0] == ["SETTING", "DEFAULT", "VALUE", "FROM"]
    assert [row[:3] for row in rows[1:]] == [["lend.mode", '"observe"', '"act"'], ["lend.reserve_nodes", "0", "2"]]
    bare = run("diff", "--config", path, "-P", "-h", "--format", "value,setting").stdout
    assert bare == '"act"|lend.mode\n2|lend.reserve_nodes\n'


def test_two_configurations_are_compared(path: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / "freetrain.toml"
    other.write_text('[lend]\nmode = "act"\nreserve_nodes = 3\n')
    assert run("diff", "--config", path, "-P", other).stdout.splitlines() == [
        "SETTING|OTHER|VALUE|FROM", f"lend.reserve_nodes|3|2|{tmp_path}/conf.d/10-site.toml"
    ]  # fmt: skip
    other.write_text('[lend]\nmode = "act"\nreserve_nodes = 2\n')
    assert run("diff", "--config", path, other).stdout == "No setting differs.\n"


def test_a_column_that_is_not_there_is_answered_with_a_sentence(path: Path) -> None:
    result = run("diff", "--config", path, "--format", "setings")
    assert result.exit_code == ExitCode.USAGE
    assert "there is no column SETINGS" in result.stderr
    assert "Did you mean SETTING?" in result.stderr


def test_the_first_configuration_only_observes_and_fits_this_slurm(site: PlantedSite, tmp_path: Path) -> None:
    site.conf("SchedulerParameters=bf_interval=5")
    site.conf("SuspendTime=300 sec")
    site.conf("SuspendProgram=/sbin/off")
    site.partition("freetrain", "MaxTime=08:00:00")
    written = tmp_path / "new" / "freetrain.toml"
    result = run("init", written)
    assert result.exit_code == ExitCode.OK, result.output
    config = load_config(written).config
    assert (config.slurm.partition, config.lend.mode) == ("freetrain", "observe")
    assert (config.lend.longest_fragment, config.pace.poll, config.lend.spare_suspendable) == (
        8 * 3600.0,
        5.0,
        True,
    )
    assert "# Nodes never to lend" in written.read_text(), "every other setting is there, commented out"
    assert result.stdout == f"{written} is written: partition freetrain, mode observe.\n"
    assert written.stat().st_mode & 0o777 == 0o644


def test_a_file_is_named_in_the_same_two_ways_to_init_and_to_check(site: PlantedSite, tmp_path: Path) -> None:
    paths = [tmp_path / "one.toml", tmp_path / "two.toml"]
    assert run("init", "--config", paths[0]).exit_code == ExitCode.OK
    assert run("init", paths[1]).exit_code == ExitCode.OK
    assert paths[0].read_text() == paths[1].read_text()
    paths[0].write_text("[pace]\npol = 5\n")
    for named in (("check", paths[0]), ("check", "--config", paths[0]), ("check", paths[0], "--config", paths[0])):
        result = run(*named, "--offline")
        assert result.exit_code == ExitCode.CONFIGURATION
        assert f"{paths[0]}: there is no setting pace.pol" in result.stdout
    for command in ("check", "init"):
        result = run(command, "--config", *paths)
        assert (result.exit_code, "PATH and --config name two files" in result.stderr) == (ExitCode.USAGE, True)


def test_it_names_what_slurm_lacks(site: PlantedSite, tmp_path: Path) -> None:
    del site.partitions["freetrain"], site.partitions["debug"]
    site.conf("PreemptType=preempt/none")
    said = run("init", tmp_path / "freetrain.toml").stdout
    assert "error: Slurm has no partition freetrain; it has main." in said
    assert "slurm.conf: PartitionName=freetrain Nodes=n[001-004] PriorityTier=9 PreemptMode=REQUEUE" in said
    assert "slurm.conf: PreemptType=preempt/partition_prio" in said, "all of it at once"


def test_a_sites_own_scavenger_partition_is_taken(site: PlantedSite, tmp_path: Path) -> None:
    site.partitions["idle"] = site.partitions.pop("freetrain").replace("=freetrain", "=idle")
    run("init", tmp_path / "freetrain.toml")
    assert load_config(tmp_path / "freetrain.toml").config.slurm.partition == "idle"


def test_a_file_that_is_there_is_not_replaced_unasked(site: PlantedSite, path: Path) -> None:
    before = path.read_text()
    result = run("init", path)
    assert (result.exit_code, path.read_text()) == (ExitCode.CONFIGURATION, before)
    assert "Give --force to replace it" in result.stderr
    assert run("init", "--force", path).exit_code == ExitCode.OK
    assert 'mode = "observe"' in path.read_text()


def test_a_dry_run_prints_what_would_be_written(site: PlantedSite, tmp_path: Path) -> None:
    site.conf("SchedulerParameters=bf_interval=30")
    shown = run("init", "--dry-run", tmp_path / "freetrain.toml").stdout
    assert Config.model_validate(tomllib.loads(shown)) == Config()
    assert not (tmp_path / "freetrain.toml").exists()
