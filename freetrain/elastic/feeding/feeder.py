"""The source's side: what it does for newcomers in each of its steps."""

from __future__ import annotations

import contextlib
import logging
import mmap
from collections.abc import Callable
from functools import partial
from typing import Any

from freetrain.elastic.errors import DirectoryError
from freetrain.elastic.feeding.link import FeedError, FeedOffer, Link, let_go
from freetrain.elastic.feeding.parts import Packet, StateParts
from freetrain.elastic.membership.session import Session
from freetrain.elastic.on_disk.members import Generation, from_document
from freetrain.elastic.training.state import TrainingState, hyperparameters
from freetrain.elastic.training.tensors import detach_tensors
from freetrain.elastic.worlds.exchange import bytes_of

log = logging.getLogger(__name__)

STEP_BYTES = 128 << 20
"""State sent after each step, one parameter at least: copying so much takes some hundredths of a second."""

# The rest is sent after each step once all parameters are there.
_MAX_REST_BYTES = 8 << 20


class Feeder:
    """Feeds the newcomers that have chosen this member for their source."""

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
        # A copy: a feed that fails is dropped meanwhile.
        for name, feed in list(self._feeds.items()):
            self._try(name, feed.send_state)
        self._watch_optimizers()

    def release(self, generation: Generation) -> None:
        """Stop feeding the members of this generation, which follows: they need no more."""
        for name in self._feeds.keys() & set(generation.members):
            self._feeds.pop(name).end()
        self._watch_optimizers()

    def close(self) -> None:
        """Stop feeding: this member leaves, or its state has been replaced."""
        for feed in self._feeds.values():
            feed.end()
        self._feeds.clear()
        self._watch_optimizers()

    def _answer(self) -> None:
        """Begin to feed newcomers that ask for it."""
        view = self._session.view
        for name, attempt in view.feeds - self._answered:
            self._answered.add((name, attempt))
            if name in view.gone or name in view.ready or name in view.ranks:
                continue
            offer = from_document(FeedOffer, self._session.directory.feed_offer(name, attempt))
            if offer is not None and offer.source == self._session.member.id:
                self._begin(name, offer)

    def _begin(self, name: str, offer: FeedOffer) -> None:
        try:
            link, memory = offer.accept(self._session.directory.secret, lambda: name in self._session.view.gone)
        except FeedError as error:
            log.warning("%s cannot be fed: %s", name, error)
            with contextlib.suppress(DirectoryError):
                self._session.directory.say_ready(name)
        else:
            self._feeds[name] = Feed(self._state, link, memory)

    def _watch_optimizers(self) -> None:
        """Hook into each update while a newcomer is fed: after all other hooks, when gradients are final."""
        if bool(self._feeds) == bool(self._hooks):
            return
        # Only between updates: torch iterates over the hooks while it calls them.
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


class Feed:
    """One newcomer as its source sees it: what it has been sent."""

    def __init__(self, state: TrainingState, link: Link, memory: mmap.mmap) -> None:
        self._state = state
        self._parts = StateParts(state)
        self._link = link
        self._packet = Packet(memory)
        self._arrived = 0
        self._unread = 0
        self._versions = self._parts.versions()

    def send_update(self, place: int) -> None:
        """The gradients of what has arrived, if any, with which this optimizer is about to step."""
        self._check_versions()
        # Until what was sent is read its memory must not be filled again.
        while self._unread:
            self._link.await_done()
            self._unread -= 1
        self._packet.used_bytes = 0
        optimizer = self._state.optimizers[place]
        gradients = self._parts.put_gradients(place, self._arrived, self._packet)
        # Set by torch's GradScaler where the optimizer unscales gradients by itself (fused=True).
        if gradients and hasattr(optimizer, "found_inf"):
            raise FeedError("a GradScaler leaves it to the optimizer itself to look for infinite gradients")
        if gradients:
            groups = hyperparameters(optimizer)
            self._send(0, kind="update", place=place, groups=groups, gradients=gradients)

    def note_update(self) -> None:
        """The optimizer has stepped."""
        self._versions = self._parts.versions()

    def send_state(self) -> None:
        """Some more parameters; with the last ones, and from then on, the rest; raises FeedError."""
        self._check_versions()
        # Made again in each step: nothing else shows that the script has frozen a layer or added a group.
        if StateParts(self._state).layout != self._parts.layout:
            raise FeedError("the script has changed which parameters it trains, or in which groups")
        rest = self._state.capture_rest()
        _, contents = detach_tensors(rest)
        if sum(map(bytes_of, contents.everything)) > _MAX_REST_BYTES:
            raise FeedError("buffers, or what is in also={...}, are large")
        if contents.shards:
            raise FeedError("something in also={...} is sharded")
        start = self._packet.used_bytes
        parts = []
        while self._arrived < len(self._parts):
            size_bytes, spent = self._parts.size_bytes(self._arrived), self._packet.used_bytes - start
            if not spent and size_bytes > self._packet.room_bytes:
                raise FeedError("the newcomer has no room for what the optimizer keeps for a parameter")
            # At least one part follows each step, however large it is.
            if spent and spent + size_bytes > min(STEP_BYTES, spent + self._packet.room_bytes):
                break
            parts.append(self._parts.put(self._arrived, self._packet))
            self._arrived += 1
        is_whole = self._arrived == len(self._parts)
        self._send(start, kind="state", parts=parts, rest=rest if is_whole else None, layout=self._parts.layout)

    def end(self, why: str = "") -> None:
        """The newcomer needs no more, or gets no more; or it cannot be fed, and why."""
        self._link.send({"kind": "end", "why": why})
        self._link.close()
        # The last references: the others must not wait here until the kernel has the memory back.
        held = [self._link, self._packet]
        del self._link, self._packet
        let_go(held)

    def _check_versions(self) -> None:
        if self._versions != self._parts.versions():
            raise FeedError("something besides the optimizer changes parameters, or what it knows of them")

    def _send(self, start: int, **document: Any) -> None:
        self._link.send(document, start, self._packet.used_bytes)
        self._unread += 1
