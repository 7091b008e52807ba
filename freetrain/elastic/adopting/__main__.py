"""Runs a script as Python would, adopted: ``python -m freetrain.elastic.adopting [-m MODULE | FILE] …``."""

from __future__ import annotations

import logging
import os
import runpy
import sys
from pathlib import Path

from freetrain.elastic.adopting.adoption import Adoption
from freetrain.elastic.adopting.patches import patch
from freetrain.elastic.errors import Departed, NotAdoptedError, as_exit
from freetrain.elastic.on_disk.directory import TrainerDirectory, trainer_from_environment
from freetrain.errors import FreetrainError


def main() -> None:
    """Run the script of the command line; its end is that of the training."""
    logging.basicConfig(level=logging.WARNING, format="freetrain: %(message)s")
    adoption = Adoption()
    patch(adoption)
    try:
        _run(sys.argv[1:])
        adoption.end()
    except NotAdoptedError as error:
        give_up(error.reason)
        raise
    except SystemExit as status:
        if status.code in (None, 0) and not isinstance(status, Departed):
            adoption.end()
        adoption.leave(status)
        raise
    except FreetrainError as error:
        adoption.leave(error)
        raise as_exit(error) from None
    except BaseException as error:
        adoption.leave(error)
        raise


def give_up(reason: str) -> None:
    """Let all agents go on in restart mode."""
    root = trainer_from_environment()
    if root is not None:
        TrainerDirectory.open(root).give_up_adopting(reason)


def _run(arguments: list[str]) -> None:
    is_module = arguments[0] == "-m"
    sys.argv = arguments[is_module:]
    if is_module:
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    sys.path[0] = os.fspath(Path(arguments[0]).resolve().parent)
    runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
