"""Checkpoints: written whole or not at all, the last few kept, the newest good one loaded."""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import torch

from freetrain.elastic.errors import CheckpointError
from freetrain.elastic.on_disk.files import create_private, why_distrusted

log = logging.getLogger(__name__)


class Checkpoints:
    """The checkpoints of one trainer.

    Args:
        folder: where they are.
        keep: how many of the newest to keep; at least two, or a corrupt one would leave nothing to fall back on.
    """

    def __init__(self, folder: Path, keep: int = 3) -> None:
        self._folder = folder
        self._keep = max(2, keep)

    def save(self, state: dict[str, Any], step: int) -> Path:
        """Write the state; the file has its name only once all of it is on disk.

        Raises:
            CheckpointError: it cannot be written.
        """
        path = self._folder / f"step-{step:010d}.pt"
        draft = self._folder / f".{path.name}.{os.getpid()}"
        try:
            with create_private(draft) as stream:
                torch.save(state, stream)
                stream.flush()
                os.fsync(stream.fileno())
            draft.replace(path)
        except (OSError, RuntimeError) as error:
            reason = why_unwritable(error)
            if reason is None:
                raise
            raise unwritable(path, reason) from error
        finally:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
        self._prune()
        return path

    def load_newest(self) -> dict[str, Any] | None:
        """The newest state that can be read and trusted; None if there is no checkpoint.

        Raises:
            CheckpointError: there are checkpoints, but none can be used.
        """
        paths = self.newest_first()
        for path in paths:
            reason = why_distrusted(path) or _why_corrupt(path)
            if reason is None:
                try:
                    state: dict[str, Any] = torch.load(path, weights_only=True, map_location="cpu")
                except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
                    reason = f"{path} holds more than numbers and tensors ({str(error).splitlines()[0]})"
                else:
                    return state
            log.warning("checkpoint not used: %s; falling back to the one before", reason)
        if paths:
            raise none_usable(self._folder, len(paths))
        if any(self._folder.glob("step-*")):
            raise CheckpointError(
                f"the checkpoints in {self._folder} are of a sharded model.",
                "Shard the model (fully_shard, elastic.node_mesh()), on one worker if need be, or move them away.",
            )
        return None

    def newest_first(self) -> list[Path]:
        """All checkpoints."""
        return sorted(self._folder.glob("step-*.pt"), reverse=True)

    def _prune(self) -> None:
        """Remove what is older than those to keep, also what workers left that were killed while they wrote it."""
        oldest = min((path.name for path in self.newest_first()[: self._keep]), default="")
        for path in (*self._folder.glob("step-*.pt"), *self._folder.glob(".step-*")):
            if path.name.lstrip(".") < oldest:
                path.unlink(missing_ok=True)


def none_usable(folder: Path, count: int) -> CheckpointError:
    """The error where there are checkpoints and none can be read and trusted; each was named before."""
    return CheckpointError(
        f"none of the {count} checkpoints in {folder} can be used.",
        "See the warnings above; move them away to start the training anew.",
    )


def unwritable(path: Path, reason: str) -> CheckpointError:
    """The error where a checkpoint cannot be written."""
    return CheckpointError(
        f"cannot write the checkpoint {path}: {reason}.", "Make room (disk, quota) or mend the file system."
    )


def why_unwritable(error: BaseException | None) -> str | None:
    """What the file system said; torch raises an error of its own on top of that."""
    while error is not None and not isinstance(error, OSError):
        error = error.__context__
    return error.strerror if error else None


def _why_corrupt(path: Path) -> str | None:
    """Why the file is no whole checkpoint; every byte of it is checked against its checksum."""
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
    except (OSError, zipfile.BadZipFile) as error:
        return f"{path} is not whole ({error})"
    return f"{path} is damaged at {damaged}" if damaged else None
