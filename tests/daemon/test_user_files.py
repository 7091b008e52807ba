from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from freetrain.daemon.trainers.progress_reader import WrongFileError, directory_of, has_plain, open_plain

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
