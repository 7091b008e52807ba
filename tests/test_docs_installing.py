"""What the documentation says is typed to install freetrain and to run its units, done below a root of its own."""

from __future__ import annotations

import functools
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import needed
from tests.docs_shell import PAGES, ROOT, Command, Line, lines, mentioned
from tests.test_systemd import UNITS, values

SOURCES = [*UNITS.iterdir(), *(ROOT / "freetrain").rglob("*.py")]
PLACES = ("usr/local/bin", "etc/systemd/system", "usr/lib/systemd/system", "opt/freetrain/bin")
DAEMONS = 4711

needs_systemd = needed.a_program("systemctl")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The root of a machine on which nothing is installed."""
    for place in PLACES:
        (tmp_path / place).mkdir(parents=True)
    (tmp_path / "etc/passwd").write_text("root:x:0:0::/:\n")
    (tmp_path / "etc/group").write_text("root:x:0:\n")
    return tmp_path


def shown(*programs: str) -> list[Command]:
    """What the pages, and the files' own comments, say is typed of these programs."""
    of_pages = [line for page in PAGES for line in lines(page)]
    comments = [
        Line(unit.name, "", 0, text)
        for unit in sorted(UNITS.iterdir())
        for text in re.findall(r"^#   (.*)$", unit.read_text(), re.MULTILINE)
    ]
    found = [command for line in (*of_pages, *comments) for command in line.commands]
    return [command for command in found if command.program in programs]


def typed(text: str) -> Command:
    (command,) = Line("a page", "", 0, text).commands
    return command


def below(root: Path, command: Command) -> list[str]:
    """The words of a command, with what it writes below a root."""
    sources = {"install": 0, "cp": 0, "ln": 0}
    assert command.program in sources
    words = [f"{root}{word}" if word.startswith("/") else word for word in command.words]
    return [each for word in words for each in _matching(word)]


def _matching(word: str) -> Iterator[str]:
    yield from (str(path) for path in ROOT.glob(word)) if "*" in word else (word,)


def done(root: Path, command: Command) -> str:
    """What a command complains of, once it has been done below a root."""
    ran = subprocess.run(below(root, command), cwd=ROOT, capture_output=True, text=True, check=False)
    return ran.stderr


def test_all_is_put_where_it_is_looked_for(root: Path) -> None:
    for command in shown("install", "ln"):
        assert done(root, command) == "", command
    for page in (ROOT / "etc/man").iterdir():
        assert (root / "usr/local/share/man" / f"man{page.name[-1]}" / page.name).exists()
    assert (root / "usr/lib/tmpfiles.d/freetrain.conf").exists()
    assert str((root / "usr/local/bin/freetrain").readlink()).endswith("/opt/freetrain/bin/freetrain")
    assert "cannot stat" in done(root, typed("install -Dm644 -t /usr/share/man/man1 etc/man/freetrian.1"))


def test_units_are_copied_to_where_systemd_reads_them(root: Path) -> None:
    for place in ("usr/lib/sysusers.d", "usr/lib/tmpfiles.d"):
        (root / place).mkdir(parents=True)
    for command in shown("cp"):
        assert done(root, command) == "", command
    copied = {path.name for path in (root / "etc/systemd/system").iterdir()}
    assert copied == {path.name for path in UNITS.iterdir() if path.suffix in {".service", ".timer"}}
    assert "cannot stat" in done(root, typed("cp systemd/freetrian.service /etc/systemd/system/"))


@needed.several_people
@needed.a_program("systemd-tmpfiles")
def test_the_directories_and_the_account_are_made(root: Path) -> None:
    with (root / "etc/passwd").open("a") as passwd, (root / "etc/group").open("a") as group:
        passwd.write(f"freetrain:x:{DAEMONS}:{DAEMONS}::/:\n")
        group.write(f"freetrain:x:{DAEMONS}:\n")
    (root / "usr/lib/tmpfiles.d").mkdir(parents=True)
    (root / "usr/lib/tmpfiles.d/freetrain.conf").write_text((UNITS / "freetrain.tmpfiles").read_text())
    for command in shown("systemd-tmpfiles"):
        words = [command.program, f"--root={root}", *command.words[1:]]
        ran = subprocess.run(words, capture_output=True, text=True, check=False)
        assert (ran.returncode, ran.stderr) == (0, "")
    assert (root / "etc/freetrain").is_dir()


@needed.several_people
@needed.a_program("useradd")
def test_the_account_can_be_made_by_hand(root: Path) -> None:
    (command,) = shown("useradd")
    ran = subprocess.run([command.program, "--prefix", root, *command.words[1:]], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    for file in ("passwd", "group"):
        # systemd starts no unit whose Group= there is not; not everywhere does each account get one of its own.
        assert re.search(r"^freetrain:\S?:[1-9]", (root / "etc" / file).read_text(), re.MULTILINE), file


@functools.cache
def manual(program: str) -> str:
    return subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout


def complaint(command: Command) -> str:
    """What is wrong with what systemd is told; empty: nothing."""
    program, *words = command.words
    options = [word for word in words if word.startswith("-")]
    if unknown := [word for word in options if not re.search(rf"(^|\s){word}\b", manual(program), re.MULTILINE)]:
        return f"{program} has no {unknown[0]}"
    if program == "journalctl":
        return complaint_of_units([words[words.index("-u") + 1]])
    verb, *units = [*(word for word in words if not word.startswith("-")), ""]
    if verb and not re.search(rf"^  {verb}\b", manual(program), re.MULTILINE):
        return f"systemctl has no {verb}"
    return complaint_of_units(units[:-1], verb)


def complaint_of_units(names: list[str], verb: str = "") -> str:
    for name in names:
        unit = UNITS / (name if "." in name else f"{name}.service")
        if not unit.exists():
            return f"there is no {name}"
        if verb == "reload" and not values(unit, "ExecReload"):
            return f"{name} does not reload"
        if verb == "enable" and "[Install]" not in unit.read_text():
            return f"{name} cannot be enabled"
    return ""


def told_to_systemd() -> list[Command]:
    """By the pages and the comments of the units, within sentences too, and by messages."""
    programs = ("systemctl", "journalctl")
    spoken = [each for page in PAGES for each in mentioned(page, *programs)]
    quoted = re.compile(r"['(](systemctl [a-z][a-z -]*)[')]")
    said = [typed(text) for source in SOURCES if source.is_file() for text in quoted.findall(source.read_text())]
    return [*shown(*programs), *spoken, *said]


@needs_systemd
def test_what_systemd_is_told_is_there() -> None:
    told = told_to_systemd()
    assert len(told) > 15
    assert {str(command): why for command in told if (why := complaint(command))} == {}


@needs_systemd
@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("systemctl enable --know freetrain", "systemctl has no --know"),
        ("systemctl enabel --now freetrain", "systemctl has no enabel"),
        ("systemctl enable --now freetrain-wed", "there is no freetrain-wed"),
        ("systemctl enable --now freetrain-backup", "freetrain-backup cannot be enabled"),
        ("systemctl reload freetrain-web", "freetrain-web does not reload"),
        ("journalctl -u freetraind -p warning", "there is no freetraind"),
        ("journalctl -u freetrain --prioritee=warning", "journalctl has no --prioritee=warning"),
    ],
)
def test_what_is_not_there_is_found(wrong: str, why: str) -> None:
    assert complaint(typed(wrong)) == why


@needs_systemd
def test_what_is_enabled_begins_with_the_machine(root: Path) -> None:
    for unit in UNITS.iterdir():
        (root / "usr/lib/systemd/system" / unit.name).write_text(unit.read_text())
    units = {word for command in told_to_systemd() if "enable" in command.words for word in command.words[2:]} - {
        "--now"
    }
    assert len(units) > 4
    for unit in units:
        words = ["systemctl", f"--root={root}", "enable", unit]
        ran = subprocess.run(words, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
    wanted = {path.name.removesuffix(".service") for path in root.glob("etc/systemd/system/*.wants/*")}
    assert wanted == units
