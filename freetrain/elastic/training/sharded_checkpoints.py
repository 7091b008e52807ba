"""Checkpoints of sharded models: each worker of a node writes its shards, any number of workers reads them.

A checkpoint is a folder in the format of ``torch.distributed.checkpoint``, whose tensors are named by their place
in the state (``model.…``, ``optimizer.…``); beside them lies the rest of the state, with the files' checksums.
"""

from __future__ import annotations

import os
import pickle
import shutil
import zlib
from collections import ChainMap
from collections.abc import Callable, Iterable
from enum import Enum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

import torch
import torch.distributed as dist
from torch.distributed import checkpoint
from torch.distributed.checkpoint import CheckpointException, FileSystemReader
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta

from freetrain.elastic.on_disk.files import create_private, why_distrusted
from freetrain.elastic.training.checkpoints import Checkpoints, unwritable, why_unwritable
from freetrain.elastic.training.tensors import attach_tensors, detach_tensors
from freetrain.elastic.worlds.replica import Replica

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

_REST = "rest.pt"
_PIECE_BYTES = 1 << 24
# All that torch's writer puts into a table of contents besides the classes of _TABLES.
_PLAIN = {
    "torch": {"Size"},
    "torch.serialization": {"_get_layout"},
    "torch.distributed.checkpoint.filesystem": {"_StorageInfo"},
    "pathlib": {"PosixPath", "PurePosixPath", "Path"},
    "collections": {"OrderedDict"},
}
_TABLES = "torch.distributed.checkpoint.metadata"


class ShardedCheckpoints(Checkpoints):
    """The checkpoints of one trainer, a folder each, which all workers of a replica write or read together."""

    _suffix = ""
    _others = "a model that was not sharded"
    _advice = "Give each trainer a directory of its own, or move them away."

    def __init__(self, folder: Path, keep: int, replica: Replica, mesh: Callable[[], DeviceMesh]) -> None:
        super().__init__(folder, keep)
        self._replica = replica
        self._mesh = mesh

    def save(self, state: dict[str, Any], step: int) -> Path:
        """Write the state, whose folder has its name once all is on disk; raises CheckpointError if that fails."""
        path = self._folder / f"step-{step:010d}"
        draft = self._folder / f".{path.name}.{self._replica.name}"
        error: BaseException | None = None
        try:
            self._write(state, draft, path)
        # Torch's CheckpointException is a BaseException, and no RuntimeError.
        except (OSError, RuntimeError, CheckpointException) as caught:
            error = caught
        finally:
            if self._replica.shard == 0:
                shutil.rmtree(draft, ignore_errors=True)
        if self._all(error is None):
            return path
        reason = why_unwritable(_cause(error)) if error is not None else "another worker of the node could not"
        if reason is None:
            raise error or RuntimeError("a checkpoint failed")
        raise unwritable(path, reason) from error

    # -- writing

    def _write(self, state: dict[str, Any], draft: Path, path: Path) -> None:
        skeleton, contents = detach_tensors(state)
        checkpoint.save(
            {**contents.tensors, **contents.shards},
            storage_writer=checkpoint.FileSystemWriter(draft),
            process_group=self._replica.writers,
        )
        sums: list[dict[str, int]] = [{}] * self._replica.shards
        dist.all_gather_object(sums, _sums(draft.glob(f"__{self._replica.shard}_*")), self._replica.writers)
        if self._replica.shard != 0:
            return
        with create_private(draft / _REST) as stream:
            torch.save({"skeleton": skeleton, "sums": dict(ChainMap(*sums))}, stream)
            stream.flush()
            os.fsync(stream.fileno())
        # Torch's writer goes by the umask, and a file that others could write would not be loaded.
        for file in draft.iterdir():
            file.chmod(0o600)
        draft.chmod(0o700)
        if not path.exists():  # another node that left with this one may have written it
            draft.replace(path)
        self._prune()

    # -- reading

    def _load(self, path: Path) -> tuple[dict[str, Any] | None, str]:
        reason = _why_distrusted(path)
        rest: dict[str, Any] = {}
        if reason is None:
            try:
                rest = torch.load(path / _REST, weights_only=True, map_location="cpu")
                # Each worker checks a part of the files.
                names = sorted(rest["sums"])[self._replica.shard :: self._replica.shards]
                found = _sums(path / name for name in names)
                damaged = [name for name in names if found[name] != rest["sums"][name]]
                reason = f"{path} is damaged at {damaged[0]}" if damaged else None
            # Whatever damage makes of the reader: the other workers wait for this one's answer.
            except Exception as error:
                reason = f"{path / _REST} cannot be read ({str(error).splitlines()[0]})"
        if not self._all(reason is None):
            return None, reason or f"{path} cannot be read by another worker of this node"
        state, contents = attach_tensors(rest["skeleton"], {}, self._mesh)
        try:
            checkpoint.load(
                {**contents.tensors, **contents.shards},
                storage_reader=CheckedReader(path),
                process_group=self._replica.writers,
            )
        except CheckpointException as error:
            return None, f"{path} cannot be read ({str(_cause(error)).splitlines()[0]})"
        return state, ""

    # -- agreeing

    def _all(self, well: bool) -> bool:
        """Whether it went well for all workers of the replica; not asked of those that train meanwhile."""
        ballot = torch.tensor([well], dtype=torch.uint8)
        dist.all_reduce(ballot, op=dist.ReduceOp.MIN, group=self._replica.writers)
        return bool(ballot[0])

    def _agreed(self, names: list[str]) -> list[str]:
        """The names that the first worker sees; file systems may show the others something else."""
        box: list[Any] = [names]
        dist.broadcast_object_list(box, 0, group=self._replica.writers)
        found: list[str] = box[0]
        return found


def _sums(paths: Iterable[Path]) -> dict[str, int]:
    """Checksums of files, by name."""
    sums: dict[str, int] = {}
    for path in paths:
        sums[path.name] = 0
        with path.open("rb") as stream:
            while piece := stream.read(_PIECE_BYTES):
                sums[path.name] = zlib.crc32(piece, sums[path.name])
    return sums


def _why_distrusted(path: Path) -> str | None:
    try:
        reasons = [why_distrusted(file) for file in (path, *path.iterdir())]
    except OSError as error:
        return f"{path} cannot be read ({error.strerror})"
    return next((reason for reason in reasons if reason is not None), None)


def _cause(error: BaseException | None) -> BaseException | None:
    """The error of the worker that failed."""
    failed: list[BaseException] = [first for first, _ in getattr(error, "failures", {}).values()]
    return failed[0] if failed else error


class CheckedReader(FileSystemReader):
    """Torch's reader, but for the table of contents, a pickle, of which torch would run any code."""

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """The table of contents; raises UnpicklingError if it has anything else in it."""
        with self.fs.create_stream(self._get_metadata_path(kwargs.get("rank")), "rb") as stream:
            metadata: Metadata = _Unpickler(cast(IO[bytes], stream)).load()
        if getattr(metadata, "storage_meta", None) is None:
            metadata.storage_meta = StorageMeta()
        metadata.storage_meta.load_id = self.load_id  # type: ignore[union-attr]
        return metadata


def _enum_member(kind: type[Enum], name: str) -> Enum:
    """Member of an enumeration, in place of the getattr() that Python before 3.11.4 pickles; refuses all else."""
    if isinstance(kind, type) and issubclass(kind, Enum) and kind.__module__ == _TABLES:
        return kind[name]
    raise pickle.UnpicklingError(f"{name} of {kind!r} is not a part of a checkpoint's table of contents")


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if name in _PLAIN.get(module, ()) or (module == _TABLES and "." not in name):
            found = super().find_class(module, name)
            # Not what that module itself has only imported.
            if module != _TABLES or getattr(found, "__module__", "") == _TABLES:
                return found
        if module == "torch" and isinstance(found := getattr(torch, name, None), torch.dtype):
            return found
        if (module, name) == ("builtins", "getattr"):
            return _enum_member
        raise pickle.UnpicklingError(f"{module}.{name} is not a part of a checkpoint's table of contents")
