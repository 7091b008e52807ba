"""The training's state, what a newcomer needs to go on as if it had been there from the start, and its tensors."""

from __future__ import annotations

import copy
import random
import sys
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, cast

import torch

from freetrain.elastic.data.batching import Sampler
from freetrain.elastic.worlds.exchange import broadcast_bytes, broadcast_tensors, decode, encode
from freetrain.elastic.worlds.world import World
from freetrain.errors import InputError

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor


_TENSOR = "freetrain.tensor"
_SHARDED = "freetrain.sharded"


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
        captured = {**self._progress(), "model": dict(self.module.state_dict()), "optimizer": optimizers}
        return cast("dict[str, Any]", with_plain_numbers(captured))

    def check(self) -> None:
        """Raises InputError if the script carries along what newcomers and checkpoints cannot have."""
        decode(encode(detach_tensors(self.capture())[0]))

    def _progress(self) -> dict[str, Any]:
        """Progress of the training, by name: counts, sampler, items carried along, random numbers, layout."""
        return {
            "step": self.step,
            "samples_done": self.samples_done,
            "updates": self.updates,
            "exchanges": self.exchanges,
            "is_begun": self.is_begun,
            "sampler": self.sampler.state_dict(),
            "also": {name: item.state_dict() for name, item in self.also.items()},
            "random": _random_state(),
            "layout": layout_of(self.module, self.optimizers),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a captured state."""
        self._take_layout(state)
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
        _set_random_state(state["random"])

    def _take_layout(self, state: dict[str, Any]) -> None:
        # First of all: load_state_dict refuses buffers of another shape.
        take_shapes_of_buffers(self.module, state["model"])
        if "layout" in state:
            take_layout(self.module, self.optimizers, state["layout"])

    def capture_rest(self) -> dict[str, Any]:
        """All but the parameters and what the optimizer knows of each."""
        parameters = {name for name, _ in self.module.named_parameters(remove_duplicate=False)}
        model = self.module.state_dict()
        rest = {name: value for name, value in model.items() if name not in parameters}
        captured = {**self._progress(), "model": rest, "groups": hyperparameters(*self.optimizers)}
        return cast("dict[str, Any]", with_plain_numbers(captured))

    def restore_rest(self, rest: dict[str, Any]) -> None:
        """Go on from there, with the parameters that belong to it."""
        self._take_layout(rest)
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


def _random_state() -> dict[str, Any]:
    state = {"torch": torch.get_rng_state(), "python": random.getstate()}
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def _set_random_state(state: dict[str, Any]) -> None:
    torch.set_rng_state(state["torch"].cpu())
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"].cpu())


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
        _take_groups(optimizer, groups, parameters)


def _take_groups(
    optimizer: torch.optim.Optimizer, groups: Sequence[Sequence[str]], parameters: dict[str, torch.nn.Parameter]
) -> None:
    unknown = [name for group in groups for name in group if name not in parameters]
    if unknown:
        raise InputError(
            "the optimizers of the others have groups of parameters that this worker's script has not made, and "
            "not all of them are the model's own.",
            "Make all parameters before the training begins, and put those that come later into the model.",
        )
    known = list(optimizer.param_groups)
    # First of all: add_param_group() refuses a parameter that is in another group.
    optimizer.param_groups.clear()
    for place, names in enumerate(groups):
        options = {name: value for name, value in known[min(place, len(known) - 1)].items() if name != "params"}
        optimizer.add_param_group({**options, "params": [parameters[name] for name in names]})


def take_shapes_of_buffers(module: torch.nn.Module, tensors: dict[str, torch.Tensor]) -> None:
    """Make room for buffers that have another shape by now."""
    # A list, as buffers are replaced meanwhile.
    for name, buffer in list(module.named_buffers()):
        theirs = tensors.get(name)
        if isinstance(theirs, torch.Tensor) and theirs.shape != buffer.shape:
            owner, _, own_name = name.rpartition(".")
            setattr(module.get_submodule(owner), own_name, torch.empty_like(theirs, device=buffer.device))


# -- tensors: sharded ones (torch's DTensor), and how all are detached from a state


def is_sharded(value: Any) -> TypeGuard[DTensor]:
    """Whether it is one; does not import what makes them."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(value, module.DTensor)


def local(tensor: Any) -> torch.Tensor:
    """This worker's part of the tensor, in its own memory: all of it, unless it is sharded."""
    if is_sharded(tensor):
        # Without gradients: to_local() is an operation of autograd, which would have the shard in a graph.
        with torch.no_grad():
            return tensor.to_local()
    mine: torch.Tensor = tensor
    return mine


def with_local(like: DTensor, mine: torch.Tensor) -> DTensor:
    """A tensor that is sharded as the other one is, of which this worker has this."""
    from torch.distributed.tensor import DTensor

    # Shape and stride are given, since shards may be uneven; run_check would ask the other workers.
    return DTensor.from_local(
        mine, like.device_mesh, like.placements, run_check=False, shape=like.shape, stride=like.stride()
    )


def layout(tensor: DTensor) -> list[int | None]:
    """Dimension along which each dimension of the mesh shards it; None where it has copies."""
    return [getattr(place, "dim", None) for place in tensor.placements]


def empty(shape: list[int], dtype: torch.dtype, dimensions: list[int | None], mesh: DeviceMesh) -> DTensor:
    """A tensor that is sharded over this mesh, of any values."""
    from torch.distributed import tensor

    placements = [tensor.Replicate() if dimension is None else tensor.Shard(dimension) for dimension in dimensions]
    return tensor.empty(*shape, dtype=dtype, device_mesh=mesh, placements=placements)


def sharded_modules(module: torch.nn.Module) -> Iterator[Any]:
    """The parts of a model to which ``fully_shard`` was applied."""
    fsdp = sys.modules.get("torch.distributed.fsdp")
    if fsdp is not None and hasattr(fsdp, "FSDPModule"):
        yield from (part for part in module.modules() if isinstance(part, fsdp.FSDPModule))


@dataclass
class DetachedTensors:
    """The tensors of a skeleton, by their places in the state."""

    tensors: dict[str, torch.Tensor] = field(default_factory=dict)  # that all ranks have the same of
    shards: dict[str, DTensor] = field(default_factory=dict)  # of which each worker of a replica has a part

    def add(self, place: str, tensor: torch.Tensor) -> None:
        """Note it under this name, or under a similar one where two places are written alike."""
        while place in self.tensors or place in self.shards:
            place += "'"
        if is_sharded(tensor):
            self.shards[place] = tensor
        else:
            self.tensors[place] = tensor

    @property
    def everything(self) -> list[torch.Tensor]:
        """All of these tensors, those that are sharded last."""
        return [*self.tensors.values(), *self.shards.values()]


def detach_tensors(value: Any) -> tuple[Any, DetachedTensors]:
    """The value with its tensors taken out, and these."""
    contents = DetachedTensors()

    def header_of(leaf: Any, place: str) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        contents.add(place, leaf)
        kind, where = (_SHARDED, layout(leaf)) if is_sharded(leaf) else (_TENSOR, leaf.device.type)
        return (kind, list(leaf.shape), str(leaf.dtype), where)

    return _with_leaves(value, header_of), contents


def attach_tensors(
    skeleton: Any, own: dict[str, Any], mesh: Callable[[], DeviceMesh]
) -> tuple[Any, DetachedTensors]:
    """The skeleton with tensors to receive into, in the same order, the model's own (by name) where they fit."""
    contents = DetachedTensors()
    known = {f"model.{name}": value for name, value in own.items()}

    def tensor_of(leaf: Any, place: str) -> Any:
        if not _is_header(leaf):
            return leaf
        tensor = _receiver(leaf, known.get(place), mesh)
        contents.add(place, tensor)
        return tensor

    return _with_leaves(skeleton, tensor_of), contents


def with_plain_numbers(value: Any) -> Any:
    """The value, NumPy's numbers in it as Python's own: rates are often such, and checkpoints cannot hold them."""
    return _with_leaves(value, lambda leaf, _: leaf.item() if _is_of_numpy(leaf) else leaf)


def _is_of_numpy(leaf: Any) -> bool:
    return type(leaf).__module__ == "numpy" and getattr(leaf, "ndim", None) == 0


def _with_leaves(value: Any, to: Callable[[Any, str], Any], place: str = "") -> Any:
    """The same containers, with what this makes of each leaf and its place."""
    if isinstance(value, dict):
        made = {key: _with_leaves(item, to, _within(place, key)) for key, item in value.items()}
        # Some schedules ask their milestones for what only a Counter can tell.
        return type(value)(made) if isinstance(value, Counter | OrderedDict) else made
    if isinstance(value, list | tuple) and not _is_header(value):
        items = [_with_leaves(item, to, _within(place, index)) for index, item in enumerate(value)]
        return items if isinstance(value, list) else tuple(items)
    return to(value, place)


def _is_header(value: Any) -> bool:
    """Whether it stands for a tensor."""
    kind = value[0] if isinstance(value, tuple) and len(value) == 4 else None
    return isinstance(kind, str) and kind in (_TENSOR, _SHARDED)


def _receiver(header: Any, known: Any, mesh: Callable[[], DeviceMesh]) -> torch.Tensor:
    kind, shape, name, where = header
    fits = isinstance(known, torch.Tensor) and list(known.shape) == shape and str(known.dtype) == name
    fits = fits and is_sharded(known) == (kind == _SHARDED)
    dtype = getattr(torch, name.removeprefix("torch."))
    if kind == _SHARDED:
        return known if fits else empty(shape, dtype, where, mesh())
    return known.detach() if fits else torch.empty(shape, dtype=dtype, device=where)


def _within(place: str, key: Any) -> str:
    return f"{place}.{key}" if place else str(key)
