from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from freetrain.slurm.errors import PyslurmUnusableError, SlurmMissingError, SlurmUnreachableError
from freetrain.slurm.pyslurm_process import PyslurmProcess, closed_part

PLAYER = str(Path(__file__).with_name("fake_pyslurm_child.py"))

FAKE_PYSLURM = r"""
import enum, os

__version__ = "25.11.9"
print("what a library prints is no answer")
os.write(1, b"nor what it writes\n")

class PyslurmError(Exception):
    pass

class ReservationFlags(enum.Flag):
    MAINTENANCE = 1

class Record:
    name = "r1"
    purge_time = None
    flags = property(lambda self: ReservationFlags(5))
    def __getattr__(self, name):
        return name

class Records(dict):
    @staticmethod
    def load():
        return Records({1: Record()})

class Job(Record):
    user_id = 0
    @property
    def comment(self):
        return b"a \xff b".decode()

class Jobs(Records):
    @staticmethod
    def load():
        return Jobs({1: Job()})

class Nodes:
    @staticmethod
    def load():
        raise PyslurmError("Unable to contact slurm controller (connect failure)")

Reservations = Partitions = Records
"""


@pytest.fixture
def opened() -> Iterator[list[PyslurmProcess]]:
    processes: list[PyslurmProcess] = []
    yield processes
    for process in processes:
        process.close()


def play(opened: list[PyslurmProcess], role: str, *more: str, timeout_s: float = 60.0) -> PyslurmProcess:
    opened.append(PyslurmProcess(timeout_s, (sys.executable, PLAYER, role, *more)))
    return opened[-1]


def test_it_is_asked_again_and_again(opened: list[PyslurmProcess]) -> None:
    process = play(opened, "well")
    assert [node["name"] for node in process.ask("Nodes")["Nodes"]][:2] == ["n001", "n002"]
    assert set(process.ask("Partitions", "Jobs")) == {"Partitions", "Jobs"}
    assert process.version == "25.11.2"


@pytest.mark.parametrize("role", ["hangs", "hangs at import"])
def test_it_is_not_waited_for_longer_than_the_timeout(opened: list[PyslurmProcess], role: str) -> None:
    began_s = time.monotonic()
    with pytest.raises(SlurmUnreachableError, match=r"no answer within 0\.5 s"):
        play(opened, role, timeout_s=0.5).ask("Nodes")
    assert time.monotonic() - began_s < 30


@pytest.mark.parametrize(
    ("role", "kind", "words"),
    [
        ("crashes", SlurmUnreachableError, "ended .signal 11.: it printed nothing"),
        ("away", SlurmUnreachableError, "Unable to contact slurm controller"),
        ("talks nonsense", SlurmUnreachableError, "no JSON"),
        ("of another version", PyslurmUnusableError, "do not understand each other"),
        ("too old", PyslurmUnusableError, r"pyslurm 23\.2\.1 is older than 25\.11"),
        ("not installed", PyslurmUnusableError, "No module named 'pyslurm'"),
        ("fatal at import", SlurmMissingError, "Unable to process configuration file"),
    ],
)
def test_what_goes_wrong_is_said(
    opened: list[PyslurmProcess], role: str, kind: type[Exception], words: str
) -> None:
    process = play(opened, role)
    for _ in range(2):
        with pytest.raises(kind, match=words):
            process.ask("Nodes")


def test_the_folder_that_keeps_an_account_from_python_is_named(tmp_path: Path) -> None:
    home, link = tmp_path / "home" / "python", tmp_path / "venv" / "python"
    for folder in (home.parent, link.parent):
        folder.mkdir()
    home.touch(0o755)
    link.symlink_to(home)
    assert closed_part(link, lambda part: True) is None
    assert closed_part(link, lambda part: part != home.parent) == home.parent
    assert closed_part(link, lambda part: part not in (link.parent, home.parent)) == link.parent


def test_after_a_crash_a_new_one_is_started(opened: list[PyslurmProcess], tmp_path: Path) -> None:
    process = play(opened, "crashes once", str(tmp_path / "crashed"))
    with pytest.raises(SlurmUnreachableError):
        process.ask("Nodes")
    assert process.ask("Nodes")["Nodes"]


def test_the_child_program_hands_on_what_pyslurm_says(
    opened: list[PyslurmProcess], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyslurm.py").write_text(FAKE_PYSLURM)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    opened.append(PyslurmProcess(60.0))
    (process,) = opened
    answer = process.ask("Jobs", "Reservations")
    assert process.version == "25.11.9"
    assert answer["Jobs"][0]["comment"] == "a \ufffd b"
    assert answer["Jobs"][0]["partition"] == "partition"
    assert answer["Jobs"][0]["user_name"] == "root"
    assert answer["Reservations"][0]["flags"] == 5, "a flag unknown to pyslurm is handed on"
    with pytest.raises(SlurmUnreachableError, match="Unable to contact"):
        process.ask("Nodes")
