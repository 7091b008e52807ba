"""The training's state: what a newcomer needs to go on as if it had been there from the start."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import torch

from freetrain.elastic.data.batching import Sampler
from freetrain.elastic.training.tensors import (
    attach_tensors,
    detach_tensors,
    is_sharded,
    local,
    with_plain_numbers,
)
from freetrain.elastic.worlds.exchange import broadcast_bytes, broadcast_tensors, decode, encode
from freetrain.elastic.worlds.world import World
from freetrain.errors import InputError

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


class Stateful(Protocol):
    """Anything with a state to carry along: a learning rate schedule, a moving average."""

    def state_dict(self) -> dict[str, Any]:
        """State of the object: numbers, strings, tensors, lists, tuples and dictionaries of them."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> Any:
        """Go on from there."""


class TrainingState:
    """Model, optimizers, sampler, random numbers and whatever else the script registers."""

    def __init__(
        self,
        module: torch.nn.Module,
        optimizers: Iterable[torch.optim.Optimizer],
        sampler: Sampler,
        also: Mapping[str, Stateful],
    ) -> None:
        self.module = module
        self.optimizers = list(optimizers)
        self.sampler = sampler
        self.also = dict(also)
        self.step = 0  # steps completed
        self.samples_done = 0  # in these
        self.updates = 0  # made in the step under way, where a step has several
        self.exchanges = 0  # of the script's values between epochs, completed
        self.is_begun = False  # the script has come past the top of the present epoch

    def clear_gradients(self) -> None:
        """Let no parameter of an optimizer have a gradient."""
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)

    def mesh(self) -> DeviceMesh:
        """The mesh over which the model is sharded."""
        return next(parameter.device_mesh for parameter in self.module.parameters() if is_sharded(parameter))

    def note_step(self, samples: int, batches: int = 1) -> None:
        """A step of so many samples is complete, its gradients applied."""
        self.step += 1
        self.updates = 0
        self.samples_done += samples
        self.sampler.advance(samples, batches)

    def capture(self) -> dict[str, Any]:
        """The state; tensors are the live ones, not copies."""
        optimizers = {str(place): optimizer.state_dict() for place, optimizer in enumerate(self.optimizers)}
        return with_plain_numbers(
            {**self._progress(), "model": dict(self.module.state_dict()), "optimizer": optimizers}
        )

    def check(self) -> None:
        """Raises InputError if the script carries along what newcomers and checkpoints cannot have."""
        decode(encode(detach_tensors(self.capture())[0]))

    def _progress(self) -> dict[str, Any]:
        """Progress of the training, by name: counts, sampler, items carried along, random numbers, layout."""
        also = {name: item.state_dict() for name, item in self.also.items()}
        numbers = {"torch": torch.get_rng_state(), "python": random.getstate()}
        if torch.cuda.is_available():
            numbers["cuda"] = torch.cuda.get_rng_state()
        return {
            "step": self.step,
            "samples_done": self.samples_done,
            "updates": self.updates,
            "exchanges": self.exchanges,
            "is_begun": self.is_begun,
            "sampler": self.sampler.state_dict(),
            "also": also,
            "random": numbers,
            "layout": layout_of(self.module, self.optimizers),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a captured state."""
        self._prepare_for(state)
        self.module.load_state_dict(state["model"])
        for place, optimizer in enumerate(self.optimizers):
            optimizer.load_state_dict(state["optimizer"][str(place)])
        self._restore_progress(state)

    def _restore_progress(self, state: dict[str, Any]) -> None:
        self.sampler.load_state_dict(state["sampler"])
        for name, item in self.also.items():
            if name in state["also"]:
                item.load_state_dict(state["also"][name])
        self.step = state["step"]
        self.samples_done = state["samples_done"]
        self.updates = state.get("updates", 0)
        self.exchanges = state.get("exchanges", 0)
        self.is_begun = state.get("is_begun", True)
        numbers = state["random"]
        torch.set_rng_state(numbers["torch"].cpu())
        version, words, gauss = numbers["python"]
        random.setstate((version, tuple(words), gauss))
        if "cuda" in numbers and torch.cuda.is_available():
            torch.cuda.set_rng_state(numbers["cuda"].cpu())

    def _prepare_for(self, state: dict[str, Any]) -> None:
        """Have buffers of the same shapes, as load_state_dict() refuses others, and the same layout."""
        # A list, as buffers are replaced meanwhile.
        for name, buffer in list(self.module.named_buffers()):
            theirs = state["model"].get(name)
            if isinstance(theirs, torch.Tensor) and theirs.shape != buffer.shape:
                owner, _, own_name = name.rpartition(".")
                room = torch.empty_like(theirs, device=buffer.device)
                setattr(self.module.get_submodule(owner), own_name, room)
        if "layout" in state:
            take_layout(self.module, self.optimizers, state["layout"])

    def capture_rest(self) -> dict[str, Any]:
        """All but the parameters and what the optimizer knows of each."""
        parameters = {name for name, _ in self.module.named_parameters(remove_duplicate=False)}
        model = self.module.state_dict()
        rest = {name: value for name, value in model.items() if name not in parameters}
        groups = hyperparameters(*self.optimizers)
        return with_plain_numbers({**self._progress(), "model": rest, "groups": groups})

    def restore_rest(self, rest: dict[str, Any]) -> None:
        """Go on from there, with the parameters that belong to it."""
        self._prepare_for(rest)
        # Not strict: the parameters are not in it.
        self.module.load_state_dict(rest["model"], strict=False)
        set_hyperparameters(rest["groups"], *self.optimizers)
        self._restore_progress(rest)


def groups_of(*optimizers: torch.optim.Optimizer) -> list[dict[str, Any]]:
    """The groups of parameters of all of them."""
    return [group for optimizer in optimizers for group in optimizer.param_groups]


def parameters_in(*optimizers: torch.optim.Optimizer) -> Iterator[torch.Tensor]:
    """The parameters of all groups."""
    return (parameter for group in groups_of(*optimizers) for parameter in group["params"])


def hyperparameters(*optimizers: torch.optim.Optimizer) -> list[dict[str, Any]]:
    """Learning rates and the like, group by group."""
    return [{name: value for name, value in group.items() if name != "params"} for group in groups_of(*optimizers)]


def set_hyperparameters(given: list[dict[str, Any]], *optimizers: torch.optim.Optimizer) -> None:
    """Take these in place of their own."""
    for group, facts in zip(groups_of(*optimizers), given, strict=True):
        group.update(facts)


class Beside:
    """A copy of what scripts change besides parameters: buffers, schedules and the like, learning rates."""

    def __init__(
        self,
        models: Iterable[torch.nn.Module],
        optimizers: Iterable[torch.optim.Optimizer],
        carried: Iterable[Stateful],
    ) -> None:
        self._buffers = [(buffer, buffer.detach().clone()) for model in models for buffer in model.buffers()]
        self._optimizers = list(optimizers)
        self._groups = copy.deepcopy(hyperparameters(*self._optimizers))
        self._items = [(item, copy.deepcopy(item.state_dict())) for item in carried]

    def put_back(self) -> None:
        """Make all as it was."""
        with torch.no_grad():
            for buffer, before in self._buffers:
                buffer.copy_(before)
        # Copies: it may be put back more than once, and load_state_dict() may keep what it is given.
        for item, state in self._items:
            item.load_state_dict(copy.deepcopy(state))
        set_hyperparameters(copy.deepcopy(self._groups), *self._optimizers)


def part_random_streams(rank: int) -> None:
    """Let each rank go on with random numbers of its own, derived from the common ones; rank 0 keeps them."""
    if rank > 0:
        seed = int(torch.randint(1 << 62, (1,)).item()) + rank
        torch.manual_seed(seed)
        random.seed(seed)


def broadcast_state(state: TrainingState, source: int, world: World) -> None:
    """Bring all replicas to the state of one of them, ``source``.

    The skeleton (everything but tensors) travels in torch's own format, which loads without running code; tensors
    travel from memory to memory, those of the model in place. What is sharded travels between the ranks that have
    the same shard; all else is that of the first rank of the source.
    """
    own = dict(state.module.state_dict())
    received = _from_source(state.capture, own, state, source, world)
    if world.replica != source:
        state.restore(received)


def broadcast_rest(state: TrainingState, source: int, world: World, *, takes: bool) -> None:
    """Bring the ranks that take it to all that the source has but parameters and what optimizers know of each."""
    received = _from_source(state.capture_rest, {}, state, source, world)
    if takes:
        state.restore_rest(received)


def _from_source(
    capture: Callable[[], dict[str, Any]], own: dict[str, Any], state: TrainingState, source: int, world: World
) -> Any:
    """The source's capture; the others receive it into their own tensors where they have any of that name."""
    first = source * world.shards
    if world.replica == source:
        captured = capture()
        skeleton, contents = detach_tensors(captured)
        content = encode(skeleton)
        broadcast_bytes(content if world.rank == first else None, first, world)
    else:
        skeleton = decode(broadcast_bytes(None, first, world))
        captured, contents = attach_tensors(skeleton, own, state.mesh)
    broadcast_tensors(contents.tensors.values(), first, world)
    broadcast_tensors([local(shard) for shard in contents.shards.values()], source, world.peers)
    return captured


def layout_of(module: torch.nn.Module, optimizers: Sequence[torch.optim.Optimizer]) -> dict[str, Any]:
    """Names of the parameters that want a gradient, and of each optimizer's parameters, group by group."""
    names = {parameter: name for name, parameter in module.named_parameters()}
    return {
        "trained": [name for parameter, name in names.items() if parameter.requires_grad],
        "groups": [
            [[names.get(parameter, "") for parameter in group["params"]] for group in optimizer.param_groups]
            for optimizer in optimizers
        ],
    }


def take_layout(
    module: torch.nn.Module, optimizers: Sequence[torch.optim.Optimizer], layout: dict[str, Any]
) -> None:
    """Train the same parameters in the same groups; raises InputError if these have others than the model has."""
    parameters = dict(module.named_parameters())
    trained = set(layout["trained"])
    for name, parameter in parameters.items():
        # Torch refuses it for whole numbers.
        if parameter.is_floating_point():
            parameter.requires_grad_(name in trained)
    if layout["groups"] == layout_of(module, optimizers)["groups"]:
        return
    for optimizer, groups in zip(optimizers, layout["groups"], strict=True):
        if any(name not in parameters for names in groups for name in names):
            raise InputError(
                "the optimizers of the others have groups of parameters that this worker's script has not made, "
                "and not all of them are the model's own.",
                "Make all parameters before the training begins, and put those that come later into the model.",
            )
        known = list(optimizer.param_groups)
        # First of all: add_param_group() refuses a parameter that is in another group.
        optimizer.param_groups.clear()
        for place, names in enumerate(groups):
            options = {**known[min(place, len(known) - 1)], "params": [parameters[name] for name in names]}
            optimizer.add_param_group(options)
