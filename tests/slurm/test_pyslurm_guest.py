"""pyslurm lives in a guest; here a module of that name plays its part."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from freetrain.slurm.errors import PyslurmUnusableError, SlurmMissingError, SlurmUnreachableError
from freetrain.slurm.pyslurm_client import PyslurmGuest

FAKE = Path(__file__).with_name("fake_pyslurm")


def play(role: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let guests that are started from now on import a pyslurm that plays this role."""
    monkeypatch.syspath_prepend(FAKE)
    monkeypatch.setenv("FAKE_PYSLURM", role)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., PyslurmGuest]]:
    guests: list[PyslurmGuest] = []

    def start(role: str, timeout_s: float = 60.0) -> PyslurmGuest:
        play(role, monkeypatch)
        guests.append(PyslurmGuest(timeout_s))
        return guests[-1]

    yield start
    for guest in guests:
        guest.close()


Opened = Callable[..., PyslurmGuest]


def test_it_is_asked_again_and_again(opened: Opened) -> None:
    guest = opened("well")
    assert [node["name"] for node in guest.ask("Nodes")["Nodes"]][:2] == ["n001", "n002"]
    assert set(guest.ask("Partitions", "Jobs")) == {"Partitions", "Jobs"}
    assert guest.version == "25.11.2"


@pytest.mark.parametrize("role", ["hangs", "hangs at import"])
def test_it_is_not_waited_for_longer_than_the_timeout(opened: Opened, role: str) -> None:
    guest = opened(role, timeout_s=0.5)
    began_s = time.monotonic()
    with pytest.raises(SlurmUnreachableError, match=r"pyslurm, which had not answered after .* s and was ended"):
        guest.ask("Nodes")
    assert time.monotonic() - began_s < 30


@pytest.mark.parametrize(
    ("role", "kind", "words"),
    [
        ("crashes", SlurmUnreachableError, "died .signal 11, SIGSEGV"),
        ("away", SlurmUnreachableError, "Unable to contact slurm controller"),
        ("of another version", PyslurmUnusableError, "do not understand each other"),
        ("too old", PyslurmUnusableError, r"pyslurm 23\.2\.1 is older than 25\.11"),
        ("not installed", PyslurmUnusableError, "No module named 'pyslurm'"),
        ("fatal at import", SlurmMissingError, "Unable to process configuration file"),
    ],
)
def test_what_goes_wrong_is_named_each_time(opened: Opened, role: str, kind: type[Exception], words: str) -> None:
    guest = opened(role)
    for _ in range(2):
        with pytest.raises(kind, match=words):
            guest.ask("Nodes")


def test_after_a_crash_a_new_one_is_started(opened: Opened, tmp_path: Path) -> None:
    guest = opened(f"crashes once:{tmp_path / 'crashed'}")
    with pytest.raises(SlurmUnreachableError):
        guest.ask("Nodes")
    assert guest.ask("Nodes")["Nodes"]


def test_records_come_as_pyslurm_has_them_and_what_is_no_text_is_mended(opened: Opened) -> None:
    answer = opened("garbled").ask("Jobs", "Reservations")
    assert answer["Jobs"][0]["comment"] == "a \ufffd b"
    assert answer["Jobs"][0]["partition"] == "partition"
    assert answer["Jobs"][0]["user_name"] == "root"
    assert answer["Reservations"][0]["flags"] == 5, "a flag unknown to pyslurm is handed on"
