"""Every line that the documentation gives a shell is run in a test, or it is said why in none."""

from __future__ import annotations

import configparser
import importlib.util
import re
import subprocess
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest

import freetrain
from freetrain.config import Config
from freetrain.daemon.controls.site_orders import LASTING
from tests.docs_shell import NOT_SHELL, PAGES, ROOT, Command, Line, lines, mentioned, place, scripts

WHERE: Mapping[str, str] = {
    r"\S*freetrain ": "tests/test_docs_running.py",
    r"(sacct|sacctmgr|sbatch|scancel|scontrol|setpriv|sinfo|squeue|srun) ": "tests/test_docs_on_slurm.py",
    r"(systemctl|systemd-tmpfiles|useradd|install|cp|ln) ": "tests/test_docs_installing.py",
    r"(etc/packages/deb.sh|rpmbuild |python3 -m venv)": "tests/test_packages.py",
    r"sudo -u freetrain freetrain ": "tests/cli/test_config_check_on_slurm.py",
    r"make (?!-j)": "tests/test_docs_shell.py",
    r"\S*pip install '\.\[": "tests/test_docs_shell.py",
    r"(export|touch) \S*=?/": "tests/test_docs_shell.py",
    r"\.venv/bin/python -m benchmarks\.experiments ": "tests/benchmarks/experiments/test_comparing.py",
    r"pip install \./freetrain-first-come": "tests/policies/test_installed.py",
    r"(cat|eval|export|tail) ?": "tests/test_docs_lab.py",
    r"cd /tmp$": "tests/test_docs_on_slurm.py",
    r"sudo apt install slurm-wlm": "tests/test_docs_shell.py",
}
"""Where a command is run, or held against what there is."""

BY_HAND: Mapping[str, str] = {
    r"sudo apt install build-essential": "a newer Slurm is built by hand",
    r"\./configure ": "a newer Slurm is built by hand",
    r"(make -j4|sudo make install)$": "a newer Slurm is built by hand",
    r"\.venv/bin/pip install 'pyslurm": "a newer Slurm is built by hand",
    r"dpkg -i 'freetrain_\*\.deb'$": "installs on this machine; tests/test_packages.py unpacks it",
    r"dnf install ": "asks another distribution's repositories",
    r"ssh -L ": "goes to another machine",
}
"""What no test runs, and why."""


def complaint(command: Command) -> str:
    """Why a command is in no test; empty: it is in one."""
    places = [where for pattern, where in (WHERE | BY_HAND).items() if re.match(pattern, str(command))]
    return "" if places else "no test says that it runs it"


def typed(text: str) -> list[Command]:
    return Line("a page", "", 1, text).commands


def shown(*programs: str) -> list[Command]:
    return [each for page in PAGES for line in lines(page) for each in line.commands if each.program in programs]


@pytest.mark.parametrize("page", PAGES, ids=place)
def test_each_line_is_in_a_test(page: Path) -> None:
    assert {str(each): why for line in lines(page) for each in line.commands if (why := complaint(each))} == {}


def test_a_line_in_no_test_is_found_and_so_are_all_parts_of_a_line() -> None:
    assert [complaint(each) for each in typed("freetrain jobs && sstat -j 7  # no more")] == [
        "", "no test says that it runs it",
    ]  # fmt: skip
    assert list(map(str, typed("A=1 freetrain jobs; tail -2 x > y &"))) == ["freetrain jobs", "tail -2 x"]
    assert list(map(str, typed('eval "$(freetrain lab env)"'))) == [
        "eval '$(freetrain lab env)'", "freetrain lab env",
    ]  # fmt: skip
    assert str(typed("sudo -u freetrain freetrain db check")[1]) == "freetrain db check"


def test_what_is_said_of_lines_is_of_lines_that_there_are() -> None:
    shown = [str(each) for page in PAGES for line in lines(page) for each in line.commands]
    for pattern, where in (WHERE | BY_HAND).items():
        assert any(re.match(pattern, command) for command in shown), f"no page shows {pattern}"
        for path in re.findall(r"tests/[a-z_/]+\.py", where):
            assert (ROOT / path).exists(), path
    texts = "\n".join(page.read_text() for page in PAGES)
    assert [begin for begin in NOT_SHELL if f"\n    {begin}" not in texts] == []


@pytest.mark.parametrize("script", [each for page in PAGES for each in scripts(page)])
def test_a_script_is_one(script: str) -> None:
    done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def complaint_of_make(command: Command) -> str:
    """What make says that it cannot do, without doing it."""
    variables = [word for word in command.words[1:] if "=" in word and not word.startswith("PATH=")]
    targets = [word for word in command.words[1:] if "=" not in word]
    done = subprocess.run(["make", "-n", *targets, *variables], cwd=ROOT, capture_output=True, text=True)
    unknown = [word.partition("=")[0] for word in variables if f"$({word.partition('=')[0]})" not in MAKEFILE]
    return done.stderr.strip() or " ".join(unknown)


MAKEFILE = (ROOT / "Makefile").read_text()


def test_what_is_made_can_be_made() -> None:
    made = [each for page in PAGES for line in lines(page) for each in line.commands if each.program == "make"]
    made += [each for page in PAGES for each in mentioned(page, "make")]
    here = [each for each in made if not complaint(each) and "-j4" not in each.words]
    assert len(here) > 10
    assert {str(each): why for each in here if (why := complaint_of_make(each))} == {}
    assert "No rule" in complaint_of_make(typed("make tset")[0])
    assert complaint_of_make(typed("make test WORKRES=8")[0]) == "WORKRES"


def test_a_demo_does_not_wait_for_pytorch_or_for_what_only_tests_need() -> None:
    def installed_for(target: str) -> str:
        command = ["make", "-n", "VENV=/nowhere", target]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    for what in ("torch==", "[dev]"):
        assert what in installed_for("unit")
        assert what not in installed_for("demo")


def unknown_extras(command: Command) -> set[str]:
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg")
    asked = {name for word in command.words for name in re.findall(r"^\.\[(\S+)\]$", word)}
    return asked - set(settings["options.extras_require"])


def test_the_extras_that_pip_is_asked_for_are_there() -> None:
    asked = [each for page in PAGES for line in lines(page) for each in line.commands if "pip" in each.program]
    assert sum(any(word.startswith(".[") for word in each.words) for each in asked) >= 3
    assert [str(each) for each in asked if unknown_extras(each)] == []
    assert unknown_extras(typed("pip install '.[reprot]'")[0]) == {"reprot"}


def unknown_to_a_module(command: Command) -> str:
    """What ``python -m`` is told that the module, or what it is told with, does not know."""
    name, told = command.words[2], command.words[3:]
    if importlib.util.find_spec(name) is None:
        return name
    place = ROOT / name.replace(".", "/")
    sources = [place.with_suffix(".py")] if place.with_suffix(".py").exists() else sorted(place.rglob("*.py"))
    text = "".join(source.read_text() for source in sources)
    return " ".join(word for word in told if word.startswith("--") and f'"{word}"' not in text)


def test_the_modules_that_are_run_are_there_with_their_options() -> None:
    told = [each for page in PAGES for each in mentioned(page, "python") if each.words[1] == "-m"]
    ours = [each for each in told if each.words[2].startswith(("benchmarks", "freetrain", "tests"))]
    assert len(ours) > 10
    assert {str(each): why for each in ours if (why := unknown_to_a_module(each))} == {}
    assert unknown_to_a_module(typed("python -m benchmarks.endz")[0]) == "benchmarks.endz"
    assert unknown_to_a_module(typed("python -m benchmarks.ends --limt 2")[0]) == "--limt"


def test_what_is_installed_for_a_lab_is_what_the_tests_install() -> None:
    (needed,) = (
        set(each.words[3:]) for each in shown("sudo")
        if str(each).startswith("sudo apt install slurm-wlm")
    )  # fmt: skip
    installed = re.search(r"^packages=\((.*)\)", (ROOT / "tests/install_programs.sh").read_text(), re.MULTILINE)
    assert installed is not None
    assert needed <= set(installed[1].split())


def test_the_package_for_rpm_is_of_this_freetrain() -> None:
    (command,) = shown("rpmbuild")
    defined = dict(word.split(" ", 1) for before, word in pairwise(command.words) if before == "--define")
    assert defined == {"project": "$PWD", "version_": freetrain.__version__}
    spec = (ROOT / command.words[-1]).read_text()
    assert [name for name in defined if f"%{{{name}}}" not in spec] == []


def test_the_files_that_are_touched_or_exported_are_those_that_count() -> None:
    state = Config().state
    touched = {word for each in shown("touch") for word in each.words[1:]}
    stores = {word.partition("=")[2] for each in shown("export") for word in each.words[1:] if "_STORE=" in word}
    assert touched == {state.stop_file, LASTING}
    assert stores == {f"{state.directory}/freetrain.db"}


def test_variables_that_are_exported_are_read() -> None:
    exported = {
        word.partition("=")[0] for page in PAGES for line in lines(page) for each in line.commands
        if each.program == "export" for word in each.words[1:]
    }  # fmt: skip
    sources = "".join(source.read_text() for source in (ROOT / "freetrain").rglob("*.py"))
    assert [name for name in exported - {"PATH"} if f'"{name}"' not in sources] == []


def test_the_page_is_where_ssh_looks_for_it() -> None:
    (command,) = shown("ssh")
    port = re.search(r'"--port".* default=(\d+)', (ROOT / "freetrain/cli/web.py").read_text())
    assert port is not None
    assert command.words[2] == f"{port[1]}:localhost:{port[1]}"
