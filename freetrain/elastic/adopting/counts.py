"""Numbers that a script keeps in its variables, such as a count of its steps, carried along with the training."""

from __future__ import annotations

import ast
import ctypes
import linecache
import secrets
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import FrameType, FunctionType, ModuleType
from typing import Any

from freetrain.elastic.errors import NotAdoptedError

Number = int | float | bool
# A meter is in a dictionary of a logger, and a trainer's state in one of its attributes.
_DEPTH = 3
# Larger dictionaries hold data.
_MOST_ITEMS = 64
_OF_OTHERS = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))


class ScriptCounts:
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
        if not self._is_training:
            return
        # Numbers that only an iterator knows cannot be put back, nor can a newcomer get them.
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


def kept_numbers() -> dict[str, KeptNumber]:
    """Each number of the script's, by a name that is the same in all processes."""
    seen: set[int] = set()
    return {
        name: kept
        for depth, frame in enumerate(frames())
        for name, kept in _numbers_in(frame.f_locals, f"{depth}.{frame.f_code.co_name}", seen, _DEPTH)
    }


def _numbers_in(owner: dict[str, Any], name: str, seen: set[int], depth: int) -> Iterator[tuple[str, KeptNumber]]:
    """The numbers of a function's variables, of an object or of a dictionary, and of what these hold."""
    for key, value in list(owner.items()):
        if type(value) in (int, float, bool):
            yield f"{name}.{key}", KeptNumber(value, owner, key)
        elif depth and (inner := _inside(value)) is not None and id(value) not in seen:
            seen.add(id(value))
            yield from _numbers_in(inner, f"{name}.{key}", seen, depth - 1)


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
    for name, kept in kept_numbers().items():
        if name in values and values[name] != kept.value:
            kept.owner[kept.key] = values[name]
    # Before Python 3.13 (PEP 667) what is written to a frame's variables has to be taken over.
    for frame in frames() if sys.version_info < (3, 13) else ():
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
    """Names of the numbers that the ``for`` statements under way have set, by iterators of their own."""
    return [
        f"{depth}.{frame.f_code.co_name}.{variable}"
        for depth, frame in enumerate(frames())
        for lines, variable in _loops_in(frame.f_code.co_filename)
        if frame.f_lineno in lines and type(frame.f_locals.get(variable)) is int
    ]


@cache
def _loops_in(file: str) -> list[tuple[range, str]]:
    """Lines and variable of the ``for`` statements of a file, one for each variable; none if it cannot be read."""
    try:
        nodes = list(ast.walk(ast.parse("".join(linecache.getlines(file)))))
    except (SyntaxError, ValueError):
        return []
    loops = [node for node in nodes if isinstance(node, ast.For)]
    return [
        (range(loop.lineno, (loop.end_lineno or loop.lineno) + 1), target.id)
        for loop in loops
        for target in ast.walk(loop.target)
        if isinstance(target, ast.Name)
    ]


@cache
def _is_own(module: str | None, file: str | None) -> bool:
    """Whether this module is the script's, and not of Python, of a library or of the runtime."""
    if module == "__main__":
        return True
    root = (module or "").partition(".")[0]
    return file is not None and root not in ("freetrain", "torch") and not file.startswith(("<", *_OF_OTHERS))
