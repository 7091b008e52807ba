from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import click
from click.testing import CliRunner

from freetrain.cli.main import cli
from freetrain.cli.web import web_command
from tests.web.site import Site

UNIT = Path(__file__).parents[2] / "systemd/freetrain-web.service"


def test_the_page_is_served_until_the_command_is_ended(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.publishes()
    config = tmp_path / "freetrain.toml"
    config.write_text(f"[state]\ndirectory = '{tmp_path}'\nstop_file = '{tmp_path}/STOP'\n")
    command = [sys.executable, "-m", "freetrain", "web", "--port", "0", "--config", str(config)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout is not None
            said = program.stdout.readline()
            assert re.fullmatch(r"The page is at http://127\.0\.0\.1:\d+/\n", said)
            with urllib.request.urlopen(said.split()[-1], timeout=60) as answer:
                assert b"3 of 6" in answer.read()
            program.send_signal(signal.SIGTERM)
            rest, complaints = program.communicate(timeout=60)
        finally:
            program.kill()
    assert (program.returncode, rest, complaints) == (0, "", "")


def test_an_address_of_another_machine_is_a_sentence() -> None:
    result = CliRunner().invoke(cli, ["web", "--host", "192.0.2.1", "--port", "0"])
    assert result.exit_code == 2
    assert "192.0.2.1, port 0 cannot be used" in result.stderr
    assert "Give a free port and an address of this machine." in result.stderr


def test_the_unit_runs_the_command_for_this_machine_alone() -> None:
    unit = UNIT.read_text()
    (command,) = re.findall(r"ExecStart=(.*)", unit)
    assert shlex.split(command)[1:3] == ["freetrain", "web"]
    defaults = web_command.get_params(click.Context(web_command))
    assert next(parameter.default for parameter in defaults if parameter.name == "host") == "127.0.0.1"
    assert "IPAddressDeny=any\nIPAddressAllow=localhost\n" in unit
