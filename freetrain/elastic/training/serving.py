"""What a server does: it goes from world to world with the workers, and adds up what they send."""

from __future__ import annotations

import logging
from typing import NoReturn

from freetrain.elastic.errors import LostRankError
from freetrain.elastic.membership.session import Session

log = logging.getLogger(__name__)


def serve(session: Session) -> NoReturn:
    """Add up gradients until there are no more.

    Args:
        session: this server's.

    Raises:
        Departed: the training is complete, or this server has left it.
        BrokenWorldError: worlds break one after the other with nobody missing.
    """
    broke_with: BaseException | None = None
    sums = 0
    while True:
        world = session.reform(broke_with, sums, lambda _: None)
        try:
            while True:
                world.serve()
                sums += 1
        except LostRankError as error:
            # Workers who leave a world as agreed close their connections, too.
            log.info("generation %d has ended: %s", world.generation.number, error)
            broke_with = error
