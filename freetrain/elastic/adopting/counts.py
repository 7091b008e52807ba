"""Numbers that a script keeps in its variables, such as a count of its steps, carried along with the training."""

from __future__ import annotations

import ctypes
import dis
import secrets
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from freetrain.elastic.errors import NotAdoptedError

Number = int | float | bool
# A meter is in a dictionary of a logger, and a trainer's state in one of its attributes.
_DEPTH = 3
# Larger dictionaries hold data.
_MOST_ITEMS = 64
_OF_OTHERS = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))


class Counts:
    """Numbers in the script's variables, as they were when the step under way began; a Stateful.

    They are looked for in the functions that are being called while the script asks for a batch, and in objects of
    the script's that these have. Those that change from step to step are its counts: a rehearsal and a step that
    is made again must not count, and a newcomer goes on with those of the others.
    """

    def __init__(self) -> None:
        self._own = secrets.token_hex(8)
        self._is_training = False
        self._values: dict[str, Number] = {}
        self._changing: set[str] = set()
        self._given: Mapping[str, Any] | None = None
        self._before: dict[str, Number] = {}
        self._at_most: dict[str, Number] = {}  # of loop variables, when the first step has been made

    def begin_rehearsal(self) -> None:
        """The script asks for a batch to rehearse with; what the others have given is kept for the training."""
        self._note()
        if self._is_of_this_worker(self._given):
            self._given = None
        self._before = self._values

    def end_rehearsal(self) -> None:
        """The step does not count: until others give theirs, the numbers are those before it."""
        self._note()
        if self._given is None:
            self._at_most = {name: self._values[name] for name in loop_variables() if name in self._values}
            self._values = self._before
            self._given = self.state_dict()

    def begin_step(self) -> None:
        """The script asks for a batch with which a step of the training begins."""
        self._note()
        self._given = None
        if self._is_training:
            self._check_loops()

    def _check_loops(self) -> None:
        """A number that only an iterator knows cannot be put back, nor can a newcomer get it."""
        for name, value in self._at_most.items():
            if self._values.get(name, value) > value:
                variable = name.rpartition(".")[2]
                raise NotAdoptedError(f"its steps are counted by a loop of its own, 'for {variable} in ...'")
        self._at_most = {}

    def begin_batch(self) -> None:
        """The script gets a batch, perhaps that of a step which it makes again."""
        self.put_back()
        self._is_training = True

    def put_back(self) -> None:
        """Let the script go on with the numbers that were given, if there are any."""
        if self._given is not None:
            values = {name: value for name, value in self._given["values"].items() if name in self._changing}
            write(values)
            self._values, self._given = {**self._values, **values}, None

    def _note(self) -> None:
        now = {name: kept.value for name, kept in kept_numbers().items()}
        self._changing |= {name for name, value in now.items() if self._values.get(name, value) != value}
        self._values = now

    def _is_of_this_worker(self, state: Mapping[str, Any] | None) -> bool:
        return state is not None and state["of"] == self._own

    def state_dict(self) -> dict[str, Any]:
        """All numbers, and which of them change."""
        own = {"values": dict(self._values), "changing": sorted(self._changing), "of": self._own}
        return dict(self._given or own)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take these, once the script asks for a batch; another worker's only before it has got its first one."""
        if not self._is_training or self._is_of_this_worker(state):
            self._given, self._at_most = state, {}
            self._changing |= set(state["changing"])


def numbered(items: Iterable[Any], start: int) -> Iterator[tuple[int, Any]]:
    """Python's ``enumerate``, with its number in a variable."""
    number = start
    for item in items:
        yield number, item
        number += 1


# -- where the numbers are


@dataclass(frozen=True, slots=True)
class KeptNumber:
    """A number, and where it is kept."""

    value: Number
    owner: dict[str, Any]
    key: str
    frame: FrameType | None  # whose variables these are


def kept_numbers() -> dict[str, KeptNumber]:
    """Each number of the script's, by a name that is the same in all processes."""
    found: dict[str, KeptNumber] = {}
    seen: set[int] = set()
    for depth, frame in enumerate(frames()):
        _look(frame.f_locals, f"{depth}.{frame.f_code.co_name}", frame, found, seen, _DEPTH)
    return found


def _look(
    owner: dict[str, Any],
    name: str,
    frame: FrameType | None,
    found: dict[str, KeptNumber],
    seen: set[int],
    depth: int,
) -> None:
    for key, value in list(owner.items()):
        if type(value) in (int, float, bool):
            found[f"{name}.{key}"] = KeptNumber(value, owner, key, frame)
        elif depth and (inner := _inside(value)) is not None and id(value) not in seen:
            seen.add(id(value))
            _look(inner, f"{name}.{key}", None, found, seen, depth - 1)


def _inside(value: Any) -> dict[str, Any] | None:
    """The attributes or items of what may hold counts of the script's."""
    if isinstance(value, dict):
        is_small = len(value) <= _MOST_ITEMS and all(type(key) is str for key in value)
        return value if is_small else None
    if isinstance(value, type | FunctionType | ModuleType):
        return None
    module = type(value).__module__
    is_own = _is_own(module, getattr(sys.modules.get(module), "__file__", None))
    return getattr(value, "__dict__", None) if is_own else None


def write(values: Mapping[str, Number]) -> None:
    """Set these numbers where they are kept."""
    written = set()
    for name, kept in kept_numbers().items():
        if name in values and values[name] != kept.value:
            kept.owner[kept.key] = values[name]
            written.add(kept.frame)
    for frame in written - {None}:
        if sys.version_info < (3, 13):
            # From there on a frame's variables are written through (PEP 667).
            ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))


def frames() -> list[FrameType]:
    """The script's functions that are being called, outermost first."""
    found, frame = [], sys._getframe(1)
    # What runs the script is the runtime's.
    while frame.f_back is not None and frame.f_globals.get("__name__") != "freetrain.elastic.on_node.template":
        if frame.f_code is numbered.__code__ or _is_own(frame.f_globals.get("__name__"), frame.f_code.co_filename):
            found.append(frame)
        frame = frame.f_back
    return found[::-1]


def loop_variables() -> list[str]:
    """Names of the numbers that a ``for`` statement sets, by the iterator that it alone has."""
    return [
        f"{depth}.{frame.f_code.co_name}.{name}"
        for depth, frame in enumerate(frames())
        for name in _loop_variables(frame.f_code)
        if type(frame.f_locals.get(name)) is int
    ]


@cache
def _loop_variables(code: CodeType) -> list[str]:
    found, following = list[str](), 0
    for instruction in dis.get_instructions(code):
        if instruction.opname == "FOR_ITER":
            following = 1
        elif following and instruction.opname == "UNPACK_SEQUENCE":
            following += int(instruction.arg or 0) - 1
        elif following and instruction.opname.startswith("STORE_"):
            # Newer versions store two variables at once, or store one and load another.
            names = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
            found += names[:following]
            following = max(0, following - len(names))
        else:
            following = 0
    return found


@cache
def _is_own(module: str | None, file: str | None) -> bool:
    """Whether this module is the script's, and not of Python, of a library or of the runtime."""
    if module == "__main__":
        return True
    root = (module or "").partition(".")[0]
    return file is not None and root not in ("freetrain", "torch") and not file.startswith(("<", *_OF_OTHERS))
