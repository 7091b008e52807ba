"""Files that several hosts write and read without locks: written whole, created once, checked before use."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from freetrain.elastic.errors import DirectoryError

# File systems count time in steps of up to two seconds: of two changes within a step the time shows one.
_COARSEST_TIME_S = 2.5


def create_exclusively(path: Path, content: bytes) -> bool:
    """Create the file with all its content at once; False if it exists; raises DirectoryError if that fails."""
    try:
        # A hard link is the one operation that NFS servers make atomic and exclusive in all versions.
        _place(path, content, 0o600, os.link)
    except FileExistsError:
        return False
    return True


def _place(path: Path, content: bytes, mode: int, put: Callable[[Path, Path], None]) -> None:
    # Hidden from listings, and random: process numbers of several hosts may be the same.
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}")
    try:
        with create_private(draft, mode) as stream:
            stream.write(content)
        put(draft, path)
    # An OSError too, and the answer that create_exclusively() asks for.
    except FileExistsError:
        raise
    except OSError as error:
        raise DirectoryError(
            f"cannot write {path}: {error.strerror}.", "Make room (disk, quota) or mend the file system."
        ) from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()


def create_private(path: Path, mode: int = 0o600) -> BinaryIO:
    """Open a new file for writing, with its mode from the first moment on."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb")


def write_json(path: Path, document: dict[str, Any], mode: int = 0o600) -> None:
    """Replace the file by this document, of which readers see all or nothing; raises DirectoryError."""
    _place(path, to_json(document), mode, os.replace)


def create_json(path: Path, document: dict[str, Any]) -> bool:
    """Create the file with this document; False if it exists already."""
    return create_exclusively(path, to_json(document))


def to_json(document: dict[str, Any]) -> bytes:
    """One line of JSON."""
    return json.dumps(document, sort_keys=True).encode() + b"\n"


def read_json(path: Path) -> dict[str, Any] | None:
    """The document, or None where there is none (any more) or a stale NFS handle hides it."""
    try:
        document = json.loads(path.read_bytes())
    # RecursionError: nested thousands deep, by somebody who may write here.
    except (FileNotFoundError, ValueError, RecursionError):
        return None
    except OSError as error:
        if error.errno == errno.ESTALE:
            return None
        raise
    return document if isinstance(document, dict) else None


def overwrite(path: Path, content: bytes) -> None:
    """Put this at the beginning of the file in place, made if there is none; for content of one length only."""
    # Without O_TRUNC: it would give the block back, and on a full disk another file might get it.
    handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        os.write(handle, content)
    finally:
        os.close(handle)


def append_line(path: Path, document: dict[str, Any]) -> None:
    """Append one line of JSON in a single write, for everybody to read."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        # One write: lines that several processes append at a time stay whole.
        os.write(handle, to_json(document))
    finally:
        os.close(handle)


class ListedFolder:
    """A folder's names, listed only when it may have changed, as members ask a hundred times a second."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._changed_ns = -1
        self._is_fresh_until_s = 0.0
        self._names: list[str] = []

    def names(self) -> list[str]:
        """Names of its files in order, drafts left out; the same list as before where nothing has changed."""
        now_s = time.monotonic()
        try:
            # Opening the folder makes NFS look afresh.
            handle = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            return []
        try:
            changed_ns = os.fstat(handle).st_mtime_ns
            if changed_ns != self._changed_ns:
                self._changed_ns, self._is_fresh_until_s = changed_ns, now_s + _COARSEST_TIME_S
            if now_s <= self._is_fresh_until_s:
                listed = os.listdir(handle)  # noqa: PTH208 (a descriptor)
                names = sorted(name for name in listed if not name.startswith("."))
                if names != self._names:
                    self._names = names
        finally:
            os.close(handle)
        return self._names


def names_in(folder: Path) -> list[str]:
    """Names of the files in a folder, drafts left out."""
    return ListedFolder(folder).names()


def why_distrusted(path: Path) -> str | None:
    """Reason why this file must not be loaded (its owner or mode lets others write it); None: it may be."""
    facts = path.stat()
    if facts.st_uid not in (os.geteuid(), 0):
        return f"{path} belongs to user {facts.st_uid}, not to you"
    if facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"{path} can be written by others (mode {stat.S_IMODE(facts.st_mode):04o})"
    return None


def make_folder(folder: Path, mode: int = 0o700) -> None:
    """Create the folder, by default for this user alone; raises DirectoryError if that cannot be."""
    try:
        folder.mkdir(mode=mode, parents=True, exist_ok=True)
    except FileExistsError as error:
        raise DirectoryError(f"{folder} is a file, not a directory.", "Name another directory.") from error
    except OSError as error:
        raise DirectoryError(
            f"cannot create the directory {folder}: {error.strerror}.",
            "Name a directory on a file system that all nodes of the trainer share and that you may write to.",
        ) from error
