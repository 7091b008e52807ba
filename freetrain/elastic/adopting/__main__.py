"""Runs a script as Python would, adopted: ``python -m freetrain.elastic.adopting [-m MODULE | FILE] …``."""

from __future__ import annotations

import sys

from freetrain.elastic.adopting.adoption import Adoption
from freetrain.elastic.adopting.patches import patch
from freetrain.elastic.errors import Departed, NotAdoptedError, as_exit
from freetrain.elastic.on_disk.directory import TrainerDirectory, trainer_from_environment
from freetrain.elastic.on_node.template import run_script
from freetrain.errors import FreetrainError


def main() -> None:
    """Run the script of the command line; its end is that of the training."""
    adoption = Adoption()
    patch(adoption)
    try:
        try:
            run_script(sys.argv[1:])
        except SystemExit as status:
            # sys.exit(0) at its end is a script's way to be complete.
            if status.code not in (None, 0) or isinstance(status, Departed):
                raise
        adoption.end()
    except NotAdoptedError as error:
        # All agents then go on in restart mode.
        if (root := trainer_from_environment()) is not None:
            TrainerDirectory.open(root).give_up_adopting(error.reason)
        raise
    except BaseException as error:
        adoption.leave(error)
        if isinstance(error, FreetrainError):
            raise as_exit(error) from None
        raise


if __name__ == "__main__":
    main()
