from __future__ import annotations

import io
import json
import pickle
from pathlib import Path

import pytest

from tests.elastic.harness import printed_by


def test_sharded_checkpoints_are_kept_read_by_others_and_not_believed_where_they_are_damaged_or_evil(
    tmp_path: Path,
) -> None:
    assert json.loads(printed_by("sharded_files.py", str(tmp_path / "checkpoints"), in_folder=tmp_path)) == {
        "kept": ["step-0000000002", "step-0000000003"],
        "step": 3,
        "same": True,
        "whole": True,
        "step_where_one_is_damaged": 2,
        "where_one_is_evil": "refused",
        "was_run": False,
        "for_a_model_that_is_not_sharded": "refused",
    }


def pickled_attribute(module: str, kind: str, name: str) -> io.BytesIO:
    """A pickle of ``getattr(kind, name)``, as Python before 3.11.4 writes a member of an enumeration."""
    return io.BytesIO(f"cbuiltins\ngetattr\n(c{module}\n{kind}\nV{name}\ntR.".encode())


def test_members_of_enumerations_are_read_as_older_pythons_write_them_and_no_other_attribute_is() -> None:
    # Not above: each process that only finds the tests would import them, too, for half a second.
    from torch.distributed.checkpoint import metadata

    from freetrain.elastic.training.sharded_checkpoints import _Unpickler

    kind = metadata._MEM_FORMAT_ENCODING
    of_older = pickled_attribute(kind.__module__, kind.__name__, kind.TORCH_CONTIGUOUS_FORMAT.name)
    assert _Unpickler(of_older).load() is kind.TORCH_CONTIGUOUS_FORMAT
    for evil in (pickled_attribute("pathlib", "Path", "home"), pickled_attribute("os", "environ", "clear")):
        with pytest.raises(pickle.UnpicklingError):
            _Unpickler(evil).load()
