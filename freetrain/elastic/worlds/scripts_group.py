"""The process group that scripts, and libraries that they use, find as torch's default one.

Whatever is asked of it is told to all ranks before it begins, as the runtime's own collectives are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import Work

from freetrain.elastic.errors import LostRankError

if TYPE_CHECKING:
    from freetrain.elastic.worlds.world import World

_WATCHED = (
    "all_gather_single",
    "all_gather_single_coalesced",
    "all_to_all_single",
    "allreduce",
    "allreduce_coalesced",
    "allgather",
    "allgather_coalesced",
    "allgather_into_tensor_coalesced",
    "_allgather_base",
    "alltoall",
    "alltoall_base",
    "barrier",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_single_coalesced",
    "_reduce_scatter_base",
    "reduce_scatter_tensor_coalesced",
    "scatter",
)
_PASSED_ON = ("recv", "recv_anysource", "send")
"""Between two ranks, of which the others need to know nothing."""

_WITH_OUTPUTS = ("all_gather_single", "allgather", "_allgather_base", "gather")
"""What these give where a rank was lost is filled in; the others work in place, or leave their outputs alone."""


class ScriptsGroup(dist.ProcessGroup):
    """Torch's default process group, in front of the world's own one.

    A rank that is lost meanwhile is no error of the script: it gets its own values, and the step is made again.

    Args:
        world: whose it is.
        inner: its group in torch.
        finish: waits for a collective; raises LostRankError where it does not end.
    """

    def __init__(self, world: World, inner: dist.ProcessGroup, finish: Callable[[Any], None]) -> None:
        super().__init__(world.rank, world.size)  # type: ignore[call-arg,unused-ignore]
        self._world = world
        self._inner = inner
        self._finish = finish

    def getBackendName(self) -> str:  # noqa: N802 (torch's name)
        """A name that torch does not know: behind one that it knows it looks for the backend itself."""
        return "freetrain"

    def shutdown(self) -> None:
        """Nothing of its own."""

    def _watched(self, name: str, *args: Any, **kwargs: Any) -> Work:
        """Tell all ranks, then do it, and return when it is done."""
        world = self._world
        if world.size > 1 and not world.is_script_alone():
            try:
                world.ask(f"torch.distributed {name.strip('_')}").wait()
                self._finish(getattr(self._inner, name)(*args, **kwargs))
            except LostRankError as error:
                world.on_script_loss(error)
            else:
                return _Done()
        if name in _WITH_OUTPUTS:
            _fill(args[0], args[1])
        return _Done()


def _watching(name: str) -> Callable[..., Work]:
    def watched(self: ScriptsGroup, *args: Any, **kwargs: Any) -> Work:
        return self._watched(name, *args, **kwargs)

    return watched


def _passing(name: str) -> Callable[..., Any]:
    return lambda self, *args, **kwargs: getattr(self._inner, name)(*args, **kwargs)


for _name in _WATCHED:  # the newer names and the older ones
    setattr(ScriptsGroup, _name, _watching(_name))
for _name in _PASSED_ON:
    setattr(ScriptsGroup, _name, _passing(_name))


class _Done(Work):
    """A collective that has ended."""

    def is_completed(self) -> bool:
        """It has."""
        return True

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """There is nothing to wait for."""
        return True

    def get_future(self) -> Any:
        """One that has come."""
        future: Any = torch.futures.Future()
        future.set_result(None)
        return future


def _fill(outputs: Any, inputs: Any) -> None:
    """This rank's own values, in place of everybody's."""
    if isinstance(outputs, torch.Tensor):
        outputs.view(-1, inputs.numel()).copy_(inputs.reshape(1, -1))
        return
    for row, mine in zip(outputs, inputs, strict=False):
        for output in row if isinstance(row, Sequence) else [row]:
            output.copy_(mine)
