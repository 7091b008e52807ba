"""The source's side: what it does for newcomers in each of its steps."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable

from freetrain.elastic.errors import DirectoryError
from freetrain.elastic.feeding.errors import FeedError
from freetrain.elastic.feeding.feed import Feed
from freetrain.elastic.feeding.offer import Offer
from freetrain.elastic.membership.session import Session
from freetrain.elastic.on_disk.members import Generation
from freetrain.elastic.training.state import TrainingState

log = logging.getLogger(__name__)


class Feeder:
    """Feeds the newcomers that have chosen this member for their source.

    Args:
        state: of the training.
        session: knows who wants to be fed.
    """

    def __init__(self, state: TrainingState, session: Session) -> None:
        self._state = state
        self._session = session
        self._feeds: dict[str, Feed] = {}
        self._answered: set[tuple[str, int]] = set()

    def before_update(self) -> None:
        """The gradients are summed, and the optimizer is about to step."""
        for name, feed in list(self._feeds.items()):
            self._try(name, feed.send_update)

    def after_update(self) -> None:
        """The optimizer has stepped, or the runtime itself has touched the parameters."""
        for feed in self._feeds.values():
            feed.note_update()

    def after_step(self) -> None:
        """The step is complete, and so is what the script does after it."""
        self._answer()
        for name, feed in list(self._feeds.items()):
            self._try(name, feed.send_state)

    def release(self, generation: Generation) -> None:
        """This generation follows: who is in it needs no more."""
        for name in self._feeds.keys() & set(generation.members):
            self._feeds.pop(name).end()

    def close(self) -> None:
        """Feed nobody any more: this member leaves, or its state has been replaced."""
        for feed in self._feeds.values():
            feed.end()
        self._feeds.clear()

    def _answer(self) -> None:
        """Begin to feed who asks for it."""
        view = self._session.view
        for name, attempt in view.feeds - self._answered:
            self._answered.add((name, attempt))
            offer = None
            if name not in view.gone and name not in view.ready and name not in view.ranks:
                offer = Offer.of(self._session.directory.feed_offer(name, attempt))
            if offer is not None and offer.source == self._session.member.id:
                self._begin(name, offer)

    def _begin(self, name: str, offer: Offer) -> None:
        try:
            link, memory = offer.accept(self._session.directory.secret, lambda: name in self._session.view.gone)
        except FeedError as error:
            log.warning("%s cannot be fed: %s", name, error)
            with contextlib.suppress(DirectoryError):
                self._session.directory.say_ready(name)
        else:
            self._feeds[name] = Feed(self._state, link, memory)

    def _try(self, name: str, send: Callable[[], None]) -> None:
        try:
            send()
        except FeedError as error:
            log.info("%s is fed no more: %s", name, error)
            self._feeds.pop(name).refuse(str(error))
