"""Options that several commands share."""

from __future__ import annotations

import functools
import inspect
import math
import re
import time
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from datetime import datetime
from math import inf
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import click

from freetrain.core.node import Nodes
from freetrain.durations import parse_duration, show_duration
from freetrain.errors import InputError
from freetrain.slurm.node_groups import read_node_list

_FROM_NOW = re.compile(r"now(?:(?P<sign>[-+])(?P<duration>.+))?")


if TYPE_CHECKING:
    _Seconds = click.ParamType[float]
else:
    _Seconds = click.ParamType  # not generic before click 8.2


class DurationType(_Seconds):
    """An option's duration, in seconds: 30, 90s, 15m, 2h, 10:00, 1:00:00, 1-12; UNLIMITED (inf) if it may be."""

    name = "duration"

    def __init__(self, least_s: float = 0.0, endless: bool = False) -> None:
        self._least_s = least_s
        self._endless = endless

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds."""
        try:
            seconds = parse_duration(str(value))
        except ValueError as error:
            self.fail(f"{error}.", param, ctx)
        if seconds < self._least_s:
            self.fail(f"{value!r} is shorter than {self._least_s:g} s.", param, ctx)
        if math.isinf(seconds) and not self._endless:
            self.fail(f"{value!r} has no end; write how long, as {show_duration(3600)} or 2h.", param, ctx)
        return seconds


def parse_time(text: str, now_s: float) -> float:
    """UTC epoch seconds of ``now``, ``now-2days`` or an ISO time; one without its zone is this machine's.

    Raises:
        ValueError: it is none; the sentence says which forms there are.
    """
    text = text.strip()
    try:
        if match := _FROM_NOW.fullmatch(text):
            duration_s = parse_duration(match["duration"] or "0")
            time_s = now_s - duration_s if match["sign"] == "-" else now_s + duration_s
        else:
            time_s = datetime.fromisoformat(text).astimezone().timestamp()
    except (ValueError, OverflowError):
        time_s = math.nan
    if not math.isfinite(time_s):
        raise ValueError(f"{text!r} is not a time; write 2026-01-31T08:00, now-2days or now+2hours")
    return time_s


def parse_beginning(text: str, now_s: float) -> float:
    """UTC epoch seconds of a time, or of a duration before now (UNLIMITED: -inf).

    Raises:
        ValueError: it is neither.
    """
    try:
        return now_s - parse_duration(text)
    except ValueError as no_duration:
        try:
            return parse_time(text, now_s)
        except ValueError:
            what = f"{text!r} is not a duration and not a time; write 2h, 7d, now-2days or 2026-01-31T08:00"
            raise ValueError(what) from no_duration


CommandFunction = Callable[..., Any]

store_option = click.option(
    "--store",
    "store_path",
    type=click.Path(path_type=Path),
    help="The store's file [default: $FREETRAIN_STORE, else freetrain/freetrain.db in ~/.local/state].",
)


def config_option_as(name: str, **settings: Any) -> Callable[[CommandFunction], CommandFunction]:
    """The option ``--config``, of which a command gets the path, or what a callback makes of it, by this name."""
    means = "The daemon's configuration [default: $FREETRAIN_CONFIG, else /etc/freetrain/freetrain.toml]."
    return click.option("--config", name, type=click.Path(path_type=Path), help=means, **settings)


config_option = config_option_as("config_path")


def config_file(command: CommandFunction) -> CommandFunction:
    """Let a command about a configuration take its file as PATH or as ``--config PATH``, in ``config_path``."""

    @functools.wraps(command)
    def with_either(path: Path | None, config_path: Path | None, **given: Any) -> Any:
        if path is not None and config_path is not None and path != config_path:
            raise InputError("PATH and --config name two files.", "Give one of them.")
        return command(config_path=path or config_path, **given)

    path_argument = click.argument("path", required=False, type=click.Path(path_type=Path))
    return config_option(path_argument(with_either))


def _reader(parse: Callable[[str, float], float]) -> Callable[..., float | None]:
    """A callback that reads a time of an option; now is when the command begins."""

    def read(_context: click.Context, _option: click.Parameter, text: str | None) -> float | None:
        try:
            return None if text is None else parse(text, time.time())
        except ValueError as error:
            raise click.BadParameter(str(error)) from error

    return read


read_time = _reader(parse_time)
"""UTC epoch seconds of an option; a time without its zone is this machine's."""


_BY_TYPE: dict[object, dict[str, Any]] = {
    bool: {"is_flag": True},
    float: {"type": DurationType()},
    Path: {"type": click.Path(path_type=Path), "metavar": "FILE"},
    tuple[str, ...]: {"multiple": True},
}
"""Settings of an option that follow from the type of its parameter or field."""


def option(names: str, means: str, *, unset: Any = MISSING, **settings: Any) -> Any:
    """Default of a parameter, or field of a dataclass, that is an option; see :func:`with_options`.

    ``unset`` is the field's value where a program leaves it out; the command line's is in the settings.
    """

    def of_field(name: str, kind: object) -> Callable[[CommandFunction], CommandFunction]:
        return click.option(*names.split(), name, help=means, **(_BY_TYPE.get(kind, {}) | settings))

    return field(default=unset, metadata={"option": of_field})


def argument(**settings: Any) -> Any:
    """Default of a parameter that is an argument of the command."""

    def of_parameter(name: str, kind: object) -> Callable[[CommandFunction], CommandFunction]:
        return click.argument(name, **({"type": click.Path(path_type=Path)} if kind is Path else {}) | settings)

    return field(metadata={"option": of_parameter})


def shared_option(decorator: Callable[[CommandFunction], CommandFunction]) -> Any:
    """Default or field for an option, or several, that other commands have, too."""
    return field(metadata={"option": lambda name, kind: decorator})


def with_options(command: CommandFunction) -> CommandFunction:
    """Give a command the options and arguments that its parameters declare, in their order.

    A parameter declares them by its default (:func:`option`, :func:`argument`, :func:`shared_option`). Without one
    its type does: a dataclass by its fields, another class by its attribute ``option``.
    """
    types, made = get_type_hints(command), []
    for name, parameter in inspect.signature(command).parameters.items():
        kind = types[name]
        if parameter.default is not parameter.empty:
            made.append(parameter.default.metadata["option"](name, _without_none(kind)))
        else:
            made.append(kind.option if hasattr(kind, "option") else takes_options(kind, name))
    return options(*made)(command)


def takes_options(kind: type, argument: str = "options") -> Callable[[CommandFunction], CommandFunction]:
    """Give a command the options that are the fields of a dataclass; it gets their values as one argument."""
    # A field's own type is a text, where annotations are imported from the future
    types = get_type_hints(kind)
    names = [option_field.name for option_field in fields(kind)]

    def decorate(command: CommandFunction) -> CommandFunction:
        @functools.wraps(command)
        def with_value(**given: Any) -> Any:
            return command(**{argument: kind(**{name: given.pop(name) for name in names})}, **given)

        made = [
            option_field.metadata["option"](option_field.name, _without_none(types[option_field.name]))
            for option_field in fields(kind)
        ]
        return options(*made)(with_value)

    return decorate


def _without_none(kind: Any) -> object:
    parts = [part for part in get_args(kind) if part is not NoneType]
    return parts[0] if len(parts) == 1 and NoneType in get_args(kind) else kind


def options(*added: Callable[[CommandFunction], CommandFunction]) -> Callable[[CommandFunction], CommandFunction]:
    """One decorator for several options; help lists them in this order."""

    def add(command: CommandFunction) -> CommandFunction:
        for decorate in reversed(added):
            command = decorate(command)
        return command

    return add


json_option = option("--json", "Print JSON.")
dry_run_option = option("--dry-run", "Say what would be done.")
since_option = option(
    "--since",
    "From then on: how long ago, as 2h or 7d, or a time, as now-2days or 2026-01-31T08:00.",
    default="1d",
    callback=_reader(parse_beginning),
    type=str,
    metavar="TIME",
)


@dataclass(frozen=True, slots=True)
class EndTime:
    """End of something: at a time, or after a while; neither: it does not end."""

    until_s: float | None = option(
        "--until", "When it ends, as 2026-01-31T08:00 or now+2hours.", callback=read_time, type=str, metavar="TIME"
    )
    for_s: float | None = option("--for", "How long it lasts, as 8h.", type=DurationType(endless=True))

    def after(self, now_s: float) -> float | None:
        """End in UTC epoch seconds; None: there is none.

        Raises:
            InputError: both are given, or the time has passed.
        """
        if self.until_s is not None and self.for_s is not None:
            raise InputError("--until and --for say the same in two ways.", "Give one of them.")
        end_s = now_s + self.for_s if self.for_s is not None else self.until_s
        if end_s is not None and end_s <= now_s:
            raise InputError("The time that is given has passed.")
        return None if end_s == inf else end_s


_FORMS = "Write nodes as c[01-04,17], or a group of ClusterShell's as @group."


def read_nodes(text: str) -> Nodes:
    """The nodes of a list; never none.

    Raises:
        InputError: it is no list of nodes, or names none.
    """
    try:
        names = read_node_list(text)
    except ValueError as error:
        what = str(error)
        raise InputError(f"{what[0].upper()}{what[1:]}.", _FORMS) from error
    if not names:
        raise InputError(f"{text!r} names no node.", _FORMS)
    return names
