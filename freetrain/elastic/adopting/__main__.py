"""Runs a script as Python would, adopted: ``python -m freetrain.elastic.adopting [-m MODULE | FILE] …``."""

from __future__ import annotations

import sys

from freetrain.elastic.adopting.adoption import Adoption
from freetrain.elastic.adopting.patches import patches
from freetrain.elastic.errors import ODD_STATUS, Departed, NotAdoptedError, as_exit
from freetrain.elastic.on_disk.directory import TrainerDirectory, trainer_from_environment
from freetrain.elastic.on_node.template import run_script
from freetrain.errors import FreetrainError


def main() -> None:
    """Run the script of the command line; its end is that of the training."""
    adoption = Adoption()
    # Torch works for this adoption, in this process, for good.
    for owner, name, replacement in patches(adoption):
        setattr(owner, name, replacement(getattr(owner, name)))
    try:
        try:
            run_script(sys.argv[1:])
        except SystemExit as status:
            # sys.exit(0) at its end is a script's way to be complete.
            if status.code not in (None, 0) or isinstance(status, Departed):
                raise
        adoption.end()
    except NotAdoptedError as error:
        refuse(error.reason, is_member=adoption.has_joined)
        raise
    except BaseException as error:
        adoption.leave(error)
        if isinstance(error, FreetrainError):
            raise as_exit(error) from None
        raise


def refuse(reason: str, *, is_member: bool) -> None:
    """Let all agents go on in restart mode; a newcomer ends alone where others train this script as it is.

    Raises SystemExit in that newcomer.
    """
    if (root := trainer_from_environment()) is None:
        return
    directory = TrainerDirectory.open(root)
    if directory.view().current and not is_member:
        print(f"freetrain: the others train, and this worker's script does not: {reason}.", file=sys.stderr)
        raise SystemExit(ODD_STATUS)
    directory.give_up_adopting(reason)


if __name__ == "__main__":
    main()
