from __future__ import annotations

import itertools
import os
import socket
import threading
from pathlib import Path

import pytest

from freetrain.daemon.user_files import WrongFileError, directory_of, has_plain, open_plain

ME = os.getuid()


def read(directory: Path, owner: int = ME) -> bytes:
    with directory_of(str(directory)) as handle, open_plain(handle, "file", owner) as stream:
        return stream.read()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "file").write_text("mine")
    return tmp_path


def test_a_plain_file_of_the_owner_is_read(directory: Path) -> None:
    assert read(directory) == b"mine"
    with pytest.raises(WrongFileError, match="belongs to another user"):
        read(directory, owner=ME + 1)
    (directory / "file").unlink()
    with pytest.raises(FileNotFoundError):
        read(directory)


@pytest.mark.parametrize("kind", ["link", "hanging link", "pipe", "folder", "socket"])
def test_anything_else_in_its_place_is_refused_without_waiting(directory: Path, kind: str) -> None:
    (directory / "file").rename(directory / "old")
    match kind:
        case "link":
            (directory / "file").symlink_to(directory / "old")
        case "hanging link":
            os.mkfifo(directory / "pipe")
            (directory / "file").symlink_to(directory / "pipe")
        case "pipe":
            os.mkfifo(directory / "file")
        case "folder":
            (directory / "file").mkdir()
        case "socket":
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(directory / "file"))
    with pytest.raises(WrongFileError, match="file is not a plain file"):
        read(directory)
    with directory_of(str(directory)) as handle:
        assert not has_plain(handle, "file", ME)


def test_a_pipe_in_the_place_of_the_directory_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(NotADirectoryError):
        read(tmp_path / "pipe")


def test_who_may_only_pass_through_the_directory_can_open_it(directory: Path) -> None:
    directory.chmod(0o111)
    try:
        assert read(directory) == b"mine"
    finally:
        directory.chmod(0o755)


def test_what_is_swapped_all_the_time_is_read_or_refused_but_never_waited_for(directory: Path) -> None:
    """A racing owner puts a pipe, a link to a pipe, and the file in turn in the same place."""
    (directory / "plain").write_text("mine")
    os.mkfifo(directory / "pipe")
    (directory / "link").symlink_to(directory / "pipe")
    stop = threading.Event()

    def swap() -> None:
        for kind in itertools.cycle(("pipe", "link", "plain")):
            if stop.is_set():
                return
            copy = directory / "next"
            match kind:
                case "plain":
                    os.link(directory / "plain", copy)
                case "pipe":
                    os.link(directory / "pipe", copy)
                case "link":
                    copy.symlink_to(directory / "pipe")
            copy.replace(directory / "file")

    found: list[bytes] = []
    refused: list[str] = []

    def look() -> None:
        while min(len(found), len(refused)) < 300:
            try:
                found.append(read(directory))
            except WrongFileError as error:
                refused.append(str(error))

    racer, looker = threading.Thread(target=swap), threading.Thread(target=look, daemon=True)
    racer.start()
    looker.start()
    looker.join(60.0)
    stop.set()
    racer.join()
    assert not looker.is_alive()
    assert set(found) == {b"mine"}
    assert set(refused) == {"file is not a plain file"}
