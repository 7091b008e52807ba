"""Checkpoints: copied while the training goes on, written whole or not at all, the newest good one loaded."""

from __future__ import annotations

import contextlib
import copy
import logging
import os
import pickle
import shutil
import zipfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from freetrain.elastic.errors import CheckpointError
from freetrain.elastic.on_disk.files import create_private, why_distrusted
from freetrain.elastic.training.tensors import detach_tensors, is_sharded, local, with_local

log = logging.getLogger(__name__)


class Checkpoints:
    """The checkpoints of one trainer, a file each; two at least are kept, as the newest one may be corrupt."""

    _suffix = ".pt"
    _others = "a sharded model"
    _advice = "Shard the model (fully_shard, elastic.node_mesh()), on one worker if need be, or move them away."

    def __init__(self, folder: Path, keep: int = 3) -> None:
        self._folder = folder
        self._keep = max(2, keep)

    def save(self, state: dict[str, Any], step: int) -> Path:
        """Write the state, whose file has its name once all is on disk; raises CheckpointError if that fails."""
        path = self._folder / f"step-{step:010d}.pt"
        draft = self._folder / f".{path.name}.{os.getpid()}"
        try:
            with create_private(draft) as stream:
                torch.save(state, stream)
                stream.flush()
                # The new name might reach the disk before the content that it stands for.
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

        Raises CheckpointError if there are some, but none can be used.
        """
        names = self._agreed([path.name for path in self._folder.glob("step-*")])
        paths = self._newest_of(self._folder / name for name in names)
        for path in paths:
            state, reason = self._load(path)
            if state is not None:
                return state
            log.warning("checkpoint not used: %s; falling back to the one before", reason)
        if paths:
            raise CheckpointError(
                f"none of the {len(paths)} checkpoints in {self._folder} can be used.",
                "See the warnings above; move them away to start the training from the beginning.",
            )
        if names:
            raise CheckpointError(f"the checkpoints in {self._folder} are of {self._others}.", self._advice)
        return None

    def newest_first(self) -> list[Path]:
        """All checkpoints."""
        return self._newest_of(self._folder.glob("step-*"))

    def _newest_of(self, paths: Iterable[Path]) -> list[Path]:
        return sorted((path for path in paths if path.suffix == self._suffix), reverse=True)

    def _agreed(self, names: list[str]) -> list[str]:
        """The names from which all workers that read a checkpoint together choose it."""
        return names

    def _load(self, path: Path) -> tuple[dict[str, Any] | None, str]:
        """The state, or why it cannot be had."""
        if reason := why_distrusted(path):
            return None, reason
        try:
            # Every byte is checked against its checksum.
            with zipfile.ZipFile(path) as archive:
                damaged = archive.testzip()
        except (OSError, zipfile.BadZipFile) as error:
            return None, f"{path} is not whole ({error})"
        if damaged:
            return None, f"{path} is damaged at {damaged}"
        try:
            # A checkpoint is data: loading it must not run code (weights_only).
            return torch.load(path, weights_only=True, map_location="cpu"), ""
        except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
            return None, f"{path} holds more than numbers and tensors ({str(error).splitlines()[0]})"

    def _prune(self) -> None:
        """Remove what is older than those to keep, also what workers left that were killed while they wrote it."""
        all_of_them = self.newest_first()
        oldest = min((path.name for path in all_of_them[: self._keep]), default="")
        for path in (*all_of_them, *self._folder.glob(".step-*")):
            if path.name.lstrip(".") < oldest:
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)


def unwritable(path: Path, reason: str) -> CheckpointError:
    """The error where a checkpoint cannot be written."""
    return CheckpointError(
        f"cannot write the checkpoint {path}: {reason}.", "Make room (disk, quota) or mend the file system."
    )


def why_unwritable(error: BaseException | None) -> str | None:
    """Reason of a failed write in the file system's own words; None: it is another error."""
    # Torch's writer of archives raises a RuntimeError of its own on top of them.
    while error is not None and not isinstance(error, OSError):
        error = error.__context__
    return error.strerror if error else None


class StateCopy:
    """Copies a state into the computer's memory, each time over the copy before: there is never a second one.

    Tensors that share memory share it in the copy too, and have their strides, as in what torch.save writes.
    """

    def __init__(self) -> None:
        self._kept: list[torch.UntypedStorage] = []

    def of(self, state: dict[str, Any]) -> dict[str, Any]:
        """The state as it is now; the copy before is valid no more."""
        # By size: new memory costs seven times as much as copying into memory that is there.
        spare: defaultdict[int, list[torch.UntypedStorage]] = defaultdict(list)
        for storage in self._kept:
            spare[storage.nbytes()].append(storage)
        copied: dict[int, torch.UntypedStorage] = {}
        copies: dict[int, Any] = {}
        _, contents = detach_tensors(state)
        for tensor in filter(_is_plain, contents.everything):
            mine = local(tensor)
            original = mine.untyped_storage()
            if original.data_ptr() not in copied:
                if spare[original.nbytes()]:
                    memory = spare[original.nbytes()].pop()
                else:
                    memory = torch.empty(original.nbytes(), dtype=torch.uint8, device="cpu").untyped_storage()
                copied[original.data_ptr()] = memory.copy_(original)
            empty = torch.empty(0, dtype=mine.dtype, device="cpu")
            memory = copied[original.data_ptr()]
            like = empty.set_(memory, mine.storage_offset(), mine.size(), mine.stride())
            copies[id(tensor)] = with_local(tensor, like) if is_sharded(tensor) else like
        self._kept = list(copied.values())
        # All the rest, numbers in containers of any kind, is copied as Python does it; its memo has the tensors.
        return copy.deepcopy(state, copies)


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether it is nothing but memory with a shape, as this worker's part of a sharded one is."""
    if is_sharded(tensor):
        return True
    is_dense = type(tensor) is torch.Tensor and tensor.layout is torch.strided
    return is_dense and not (tensor.is_quantized or tensor.is_meta or tensor.is_conj() or tensor.is_neg())
