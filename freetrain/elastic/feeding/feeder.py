"""The source's side: what it does for newcomers in each of its steps."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

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
        self._hooks: list[Any] = []

    def after_update(self) -> None:
        """An optimizer has stepped, or the runtime itself has touched the parameters."""
        for feed in self._feeds.values():
            feed.note_update()

    def after_step(self) -> None:
        """The step is complete, and so is what the script does after it."""
        self._answer()
        for name, feed in list(self._feeds.items()):
            self._try(name, feed.send_state)
        self._watch_optimizers()

    def release(self, generation: Generation) -> None:
        """This generation follows: who is in it needs no more."""
        for name in self._feeds.keys() & set(generation.members):
            self._feeds.pop(name).end()
        self._watch_optimizers()

    def close(self) -> None:
        """Feed nobody any more: this member leaves, or its state has been replaced."""
        for feed in self._feeds.values():
            feed.end()
        self._feeds.clear()
        self._watch_optimizers()

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

    def _watch_optimizers(self) -> None:
        """Be told of each update while somebody is fed: after all other hooks, when gradients are what they are.

        Only between updates, as hooks must not change while torch calls them.
        """
        if bool(self._feeds) == bool(self._hooks):
            return
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        for place, optimizer in enumerate(self._state.optimizers if self._feeds else ()):
            self._hooks.append(optimizer.register_step_pre_hook(partial(self._before_update, place)))
            self._hooks.append(optimizer.register_step_post_hook(lambda *_: self.after_update()))

    def _before_update(self, place: int, *_: Any) -> None:
        """The gradients of this optimizer are summed, and it is about to step."""
        for name, feed in list(self._feeds.items()):
            self._try(name, partial(feed.send_update, place))

    def _try(self, name: str, send: Callable[[], None]) -> None:
        try:
            send()
        except FeedError as error:
            log.info("%s is fed no more: %s", name, error)
            self._feeds.pop(name).end(str(error))
