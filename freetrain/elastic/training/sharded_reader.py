"""Reading the table of contents of a sharded checkpoint without running what somebody may have put into it."""

from __future__ import annotations

import pickle
from typing import IO, Any, cast

import torch
from torch.distributed.checkpoint import FileSystemReader
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta

_PLAIN = {
    "torch": {"Size"},
    "torch.serialization": {"_get_layout"},
    "torch.distributed.checkpoint.filesystem": {"_StorageInfo"},
    "pathlib": {"PosixPath", "PurePosixPath", "Path"},
    "collections": {"OrderedDict"},
}
_TABLES = "torch.distributed.checkpoint.metadata"


class CheckedReader(FileSystemReader):
    """Torch's reader, but for the table of contents, a pickle, of which it would run whatever it says."""

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """The table of contents; raises UnpicklingError if it has anything else in it."""
        with self.fs.create_stream(self._get_metadata_path(kwargs.get("rank")), "rb") as stream:
            metadata: Metadata = _Unpickler(cast(IO[bytes], stream)).load()
        if getattr(metadata, "storage_meta", None) is None:
            metadata.storage_meta = StorageMeta()
        metadata.storage_meta.load_id = self.load_id  # type: ignore[union-attr]
        return metadata


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if name in _PLAIN.get(module, ()) or (module == _TABLES and "." not in name):
            found = super().find_class(module, name)
            if module != _TABLES or getattr(found, "__module__", "") == _TABLES:
                return found
        if module == "torch" and isinstance(found := getattr(torch, name, None), torch.dtype):
            return found
        raise pickle.UnpicklingError(f"{module}.{name} is not a part of a checkpoint's table of contents")
