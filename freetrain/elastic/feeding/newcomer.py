"""The newcomer's side: whether it can be fed, its first update, and how it takes in the state of the others."""

from __future__ import annotations

import contextlib
import itertools
import logging
import math
import os
from dataclasses import asdict
from typing import Any

import torch
from torch import optim

from freetrain.elastic.feeding.feeder import STEP_BYTES
from freetrain.elastic.feeding.link import FeedError, Link, LinkLostError, Listener, SharedMemory
from freetrain.elastic.feeding.parts import Packet, StateParts
from freetrain.elastic.membership.session import Session
from freetrain.elastic.on_disk.next_generation import View
from freetrain.elastic.training.state import TrainingState, hyperparameters, parameters_in, set_hyperparameters
from freetrain.elastic.training.tensors import is_sharded
from freetrain.elastic.worlds.exchange import bytes_of
from freetrain.elastic.worlds.replica import lost_replica
from freetrain.errors import InputError

log = logging.getLogger(__name__)

_LOOK_S = 0.02
_FIRST_LOOK_S = 10.0
_SOURCE_SEEN_LOST_S = 1.0
_MAX_SOURCES = 10
# Tensors of a parameter's size that an optimizer here keeps for it, and the parameter itself, at most.
_MAX_TENSORS_PER_VALUE = 4
FROM_VARIABLE = "FREETRAIN_FEED_FROM_MB"
# Megabytes of parameters. Of a smaller model a broadcast costs less than a tenth of a second.
_FROM_MB = 16.0
# Optimizers that make each parameter's update of that parameter's gradient alone.
_OPTIMIZERS = (
    optim.SGD,
    optim.Adam,
    optim.AdamW,
    optim.NAdam,
    optim.RAdam,
    optim.Adamax,
    optim.Adadelta,
    optim.Adagrad,
    optim.RMSprop,
    optim.Rprop,
    optim.ASGD,
)


def wants_to_be_fed(state: TrainingState) -> bool:
    """Whether a broadcast of the state would be felt, by its size, and feeding can replace it."""
    if sum(map(bytes_of, state.module.parameters())) < 1e6 * _from_mb():
        return False
    reason = why_not_fed(state)
    if reason is not None:
        log.warning("%s: newcomers get the state of this training by broadcast, while all wait", reason)
    return reason is None


def why_not_fed(state: TrainingState) -> str | None:
    """Reason why a newcomer could not follow the others' updates exactly; None: it can."""
    for optimizer in state.optimizers:
        # Not isinstance(): a subclass may do anything in its step.
        if type(optimizer) not in _OPTIMIZERS:
            return f"{type(optimizer).__name__} is not known to update each parameter by its own gradient alone"
        hooks = [*optimizer._optimizer_step_pre_hooks.values(), *optimizer._optimizer_step_post_hooks.values()]
        # Our own one, which adds gradients up, does nothing at a newcomer.
        if not all(getattr(hook, "__module__", "").startswith("freetrain.elastic.") for hook in hooks):
            return "the optimizer has hooks"
    updated = [id(parameter) for parameter in parameters_in(*state.optimizers)]
    if len(updated) != len(set(updated)):
        return "some parameters have two optimizers"
    if any(parameter.layout is not torch.strided for parameter in state.module.parameters()):
        return "some parameters are sparse"
    return None


def _from_mb() -> float:
    text = os.environ.get(FROM_VARIABLE, "")
    try:
        value = float(text or _FROM_MB)
    except ValueError:
        value = math.nan
    # Not 'value < 0', which does not hold for NaN.
    if not value >= 0:
        raise InputError(f"{FROM_VARIABLE}={text} in the environment is not a number of megabytes.", "Unset it.")
    return value


def prewarm(state: TrainingState) -> None:
    """Step each optimizer once with gradients of zero and learning rates of zero, and let it forget that.

    What torch prepares for an optimizer's first step it prepares now: code that it imports, and for sharded
    tensors how each of its operations is to be spread, also those of clipping.

    All workers of a replica have to call it at the same time; raises Departed if another one was lost.
    """
    if why_not_fed(state) is not None:
        return
    for optimizer in state.optimizers:
        # Some optimizers know something before their first step, which it would change.
        if not any(optimizer.state.values()):
            _step_with_zeros(optimizer)


def _step_with_zeros(optimizer: torch.optim.Optimizer) -> None:
    parameters = [parameter for parameter in parameters_in(optimizer) if parameter.requires_grad]
    if any(parameter.grad is not None for parameter in parameters):
        return
    before = hyperparameters(optimizer)
    try:
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter)
        for group in optimizer.param_groups:
            # In its own type: with capturable=True it may be a tensor.
            group["lr"] = group["lr"] * 0
        # Clip as scripts do; the norm is a sum over the workers of the replica.
        if sharded := [parameter for parameter in parameters if is_sharded(parameter)]:
            try:
                torch.nn.utils.clip_grad_norm_(sharded, 1.0)
            except RuntimeError as error:
                raise lost_replica() from error
        optimizer.step()
    finally:
        for parameter in parameters:
            parameter.grad = None
        optimizer.state.clear()
        set_hyperparameters(before, optimizer)


class Newcomer:
    """One worker before its first world."""

    def __init__(self, state: TrainingState, session: Session) -> None:
        self.is_mixed = False  # it has some of the training's state, and not all
        self._state = state
        self._session = session
        self._is_whole = False
        self._is_ready = False

    def follow(self) -> bool:
        """Be fed until a world takes it in, if there is one; True if it then has the state of that world."""
        session = self._session
        if not session.member.is_fed:
            return False
        session.wait_for(lambda view: session.member.id in view.members, _FIRST_LOOK_S)
        try:
            if session.view.current:
                parts = StateParts(self._state)
                # Room for all gradients and for some of the state.
                largest = max(parts.size_bytes(index) for index in range(len(parts)))
                size_bytes = parts.gradient_bytes + max(STEP_BYTES, _MAX_TENSORS_PER_VALUE * largest)
                with contextlib.closing(SharedMemory(size_bytes)) as memory:
                    self._be_fed(memory)
        except FeedError as error:
            log.warning("not fed by another member (%s): the state comes by broadcast, while all wait", error)
        self._say_ready()
        self.is_mixed = self.is_mixed and not self._is_whole
        return self._is_whole

    def _be_fed(self, memory: SharedMemory) -> None:
        """Be fed by one member, or by another if that one is lost."""
        for attempt in itertools.count():
            view = self._session.view
            source = self._choose_source(view)
            if source is None or self._is_decided(view):
                return
            try:
                link = self._await_source(source, attempt, memory)
                if link is not None:
                    with contextlib.closing(link):
                        self._take_all(link, source, Packet(memory.memory))
                return
            except LinkLostError as error:
                # Once ready it may be taken into a world at any moment: there is no time for another source.
                if self._is_ready or attempt == _MAX_SOURCES:
                    raise
                log.info("fed no more (%s): trying another member", error)
                self._await_loss(source)

    def _choose_source(self, view: View) -> str | None:
        """A source with the same shard: another for each newcomer, and rank 0, which is busiest, last."""
        me, known = self._session.member, view.members
        fed = [id_ for id_ in view.outside if known[id_].is_fed and known[id_].shard == me.shard]
        place = fed.index(me.id) if me.id in fed else 0
        sources = [id_ for id_ in view.staying if id_ in known and known[id_].shard == me.shard]
        return sources[-1 - place % len(sources)] if sources else None

    def _await_source(self, source: str, attempt: int, memory: SharedMemory) -> Link | None:
        session = self._session
        with contextlib.closing(Listener(session.member, session.directory.secret, memory)) as listener:
            session.directory.offer_feed(session.member.id, attempt, asdict(listener.offer(source)))
            while not self._is_decided(session.view):
                link = listener.accept(_LOOK_S, lambda: self._is_lost(source))
                if link is not None:
                    return link
                if self._is_lost(source):
                    raise LinkLostError(f"{source} has gone")
                if session.member.id in session.view.ready:
                    raise FeedError(f"{source} does not reach this process")
            return None

    def _take_all(self, link: Link, source: str, packet: Packet) -> None:
        """Take what comes until the source's message that it was all."""
        parts = StateParts(self._state)
        while not self._is_out(self._session.view):
            message = link.receive(_LOOK_S)
            if message is None:
                if self._is_lost(source):
                    raise LinkLostError(f"{source} has gone")
                continue
            if message["kind"] == "end":
                if message["why"]:
                    raise FeedError(message["why"])
                if not self._is_whole:
                    raise LinkLostError(f"{source} has left")
                return
            self._take(message, parts, packet, link)

    def _take(self, message: dict[str, Any], parts: StateParts, packet: Packet, link: Link) -> None:
        if message["kind"] == "update":
            # Until the rest comes again, schedules and positions are those before this update.
            self._is_whole = False
            parts.update(message, packet)
        else:
            self._take_state(message, parts, packet)
        link.say_done()

    def _take_state(self, message: dict[str, Any], parts: StateParts, packet: Packet) -> None:
        if message["layout"] != parts.layout:
            raise FeedError("the source trains other parameters, or in other groups, than the script at its start")
        self.is_mixed = True
        for part in message["parts"]:
            parts.take(part, packet)
        if message["rest"] is not None:
            self._state.restore_rest(message["rest"])
            self._is_whole = True
            self._say_ready()

    def _say_ready(self) -> None:
        """The next world may take it in."""
        if not self._is_ready:
            self._is_ready = True
            self._session.directory.say_ready(self._session.member.id)

    def _await_loss(self, source: str) -> None:
        # The end of a connection is seen first: asked again at once, the same member would be chosen.
        self._session.wait_for(lambda view: source not in view.staying, _SOURCE_SEEN_LOST_S)

    def _is_lost(self, source: str) -> bool:
        return source in self._session.view.gone

    def _is_decided(self, view: View) -> bool:
        """Whether a world takes it in, or none ever will."""
        return self._session.member.id in view.ranks or self._is_out(view)

    def _is_out(self, view: View) -> bool:
        me = self._session.member.id
        return me in view.gone or me in view.refused or me in view.leaving
