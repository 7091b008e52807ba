"""Files of users: opened once, without following links and without waiting, and judged by what has been opened.

Anybody who owns a directory can put a link or a pipe in the place of a file at any moment, so nothing that was
learned of a name holds when it is used again.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from typing import BinaryIO

_HOW = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


class WrongFileError(Exception):
    """There is something, but not a plain file of this owner; the message is a sentence for its owner."""


@contextlib.contextmanager
def directory_of(path: str) -> Iterator[int]:
    """A handle of the directory, good for what is in it; who may only pass through it gets one too.

    Raises:
        OSError: there is none.
    """
    handle = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)


def open_plain(directory: int, name: str, owner: int) -> BinaryIO:
    """A plain file of this owner, to be read.

    Args:
        directory: a handle.
        name: of the file in it.
        owner: user id.

    Raises:
        WrongFileError: it is something else.
        OSError: it is not there, or cannot be opened.
    """
    try:
        handle = os.open(name, _HOW, dir_fd=directory)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link, a socket
            raise WrongFileError(f"{name} is not a plain file") from error
        raise
    facts = os.fstat(handle)
    if stat.S_ISREG(facts.st_mode) and facts.st_uid == owner:
        return os.fdopen(handle, "rb")
    os.close(handle)
    is_foreign = stat.S_ISREG(facts.st_mode)
    raise WrongFileError(f"{name} belongs to another user" if is_foreign else f"{name} is not a plain file")


def has_plain(directory: int, name: str, owner: int) -> bool:
    """Whether there is a plain file of this owner; it is not opened."""
    try:
        facts = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError:
        return False
    return stat.S_ISREG(facts.st_mode) and facts.st_uid == owner
