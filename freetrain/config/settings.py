"""The model of all settings, and its settings as a list, for whatever shows or describes them. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any, Literal, get_args, get_origin

from pydantic import BeforeValidator
from pydantic.fields import FieldInfo

from freetrain.config.sections import (
    Decide,
    FreezeSettings,
    HarmSettings,
    LendSettings,
    LinksSettings,
    Log,
    MetricsSettings,
    NotifySettings,
    Pace,
    Prices,
    Slurm,
    State,
    WebSettings,
)
from freetrain.config.values import Section
from freetrain.core.bounds import SECONDS
from freetrain.durations import show_duration


class Config(Section):
    """Everything that can be set."""

    slurm: Slurm = Slurm()
    lend: LendSettings = LendSettings()
    decide: Decide = Decide()
    links: LinksSettings = LinksSettings()
    pace: Pace = Pace()
    harm: HarmSettings = HarmSettings()
    state: State = State()
    metrics: MetricsSettings = MetricsSettings()
    notify: NotifySettings = NotifySettings()
    web: WebSettings = WebSettings()
    freeze: FreezeSettings = FreezeSettings()
    prices: Prices = Prices()
    log: Log = Log()


NEEDS_RESTART = frozenset({"slurm", "state", "metrics", "lend.launcher", "lend.share", "pace.poll", "log.format"})
"""Sections and settings that a running daemon cannot change."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting.

    Attributes:
        section: its table in the file.
        name: within the table.
        default: its value where no file gives one.
        means: what it is, in a sentence or two.
        holds: what a table has for values: numbers or texts.
        choices: the words that it, or each value of a table, may be; none: it is no word of a few.
        least: its smallest value; None: there is none that is worth mentioning.
        most: its largest value; None: there is none that is worth mentioning.
        is_duration: whether it is given in seconds, or as Slurm writes times.
        needs_restart: whether a reload is not enough to change it.
    """

    section: str
    name: str
    default: Any
    means: str
    holds: str
    choices: tuple[str, ...]
    least: float | None
    most: float | None
    is_duration: bool
    needs_restart: bool

    @property
    def path(self) -> str:
        """The setting in words, as ``lend.mode``."""
        return f"{self.section}.{self.name}"

    @property
    def line(self) -> str:
        """A line of the file with its default."""
        return f"{self.name} = {self.show(self.default)}"

    @property
    def lines(self) -> str:
        """The lines of the file that set it to its default, its table first."""
        return self.set_to(self.default)

    def set_to(self, value: object) -> str:
        """Such lines with a value."""
        return f"[{self.section}]\n{self.name} = {self.show(value)}"

    @property
    def takes(self) -> str:
        """The values that it can have, in a few words."""
        if self.choices:
            words, is_table = ", ".join(self.choices), isinstance(self.default, Mapping)
            return f"a table of {words}; a name with dots in quotes" if is_table else words
        kinds = {bool: "true or false", int: "a whole number", float: "a number", dict: f"a table of {self.holds}"}
        kind = "a duration" if self.is_duration else kinds.get(type(self.default), "text")
        if self.least is not None and self.most is not None:
            return f"{kind} from {self._bound(self.least)} to {self._bound(self.most)}"
        return kind if self.least is None else f"{kind}, {self._bound(self.least)} or more"

    def _bound(self, number: float) -> str:
        return show_duration(number) if self.is_duration else f"{number:g}"

    def show(self, value: object) -> str:
        """A value of this setting as TOML."""
        if self.is_duration and isinstance(value, int | float):
            return f'"{show_duration(value)}"'
        if isinstance(value, Mapping):
            return f"{{{', '.join(f'{_key(key)} = {self.show(item)}' for key, item in value.items())}}}"
        return json.dumps(value, ensure_ascii=False)


@cache
def settings() -> tuple[Setting, ...]:
    """All settings, in the order of the model."""
    return tuple(_setting(section, name, field) for section, kind in sections() for name, field in _fields(kind))


def sections() -> Iterator[tuple[str, type[Section]]]:
    """The tables of the file, each with its part of the model."""
    for name, field in Config.model_fields.items():
        kind = field.annotation
        assert isinstance(kind, type)
        assert issubclass(kind, Section)
        yield name, kind


def find_setting(path: str) -> Setting | None:
    """The setting of this path, as ``lend.mode``; None: there is none."""
    return next((setting for setting in settings() if setting.path == path), None)


def setting_of(path: str) -> Setting:
    """The setting of this path, which there is.

    Raises:
        KeyError: there is none.
    """
    return {setting.path: setting for setting in settings()}[path]


def value_of(config: Config, setting: Setting) -> object:
    """The value of a setting in a configuration."""
    return reduce(getattr, setting.path.split("."), config)


def changed(new: Config, old: Config) -> list[Setting]:
    """The settings whose values differ."""
    return [setting for setting in settings() if value_of(new, setting) != value_of(old, setting)]


def keeping_what_needs_restart(new: Config, old: Config) -> Config:
    """The new settings, but for those that a running daemon cannot change."""
    document = new.model_dump()
    for setting in settings():
        if setting.needs_restart:
            document[setting.section][setting.name] = value_of(old, setting)
    return Config.model_validate(document)


def _key(name: str) -> str:
    """The name as TOML writes it: a bare dot would begin a table."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)


def _fields(kind: type[Section]) -> Iterator[tuple[str, FieldInfo]]:
    """The settings of a table, and those of the tables in it, as ``gadget.utility``."""
    for name, field in kind.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            yield from ((f"{name}.{inner}", inner_field) for inner, inner_field in _fields(field.annotation))
        else:
            yield name, field


def _words_of(kind: Any) -> tuple[Any, ...]:
    """The words of a Literal, or of a table's values."""
    values = get_args(kind)[1] if get_origin(kind) is dict else kind
    return get_args(values) if get_origin(values) is Literal else ()


def _setting(section: str, name: str, field: FieldInfo) -> Setting:
    # A duration of this model has the bound of its kind, and may have a narrower one of its own.
    least = max((bound.ge for bound in field.metadata if hasattr(bound, "ge")), default=None)
    most = min((bound.le for bound in field.metadata if hasattr(bound, "le")), default=None)
    most = None if most == SECONDS.most else most  # of all durations, and not worth mentioning
    choices = _words_of(field.annotation)
    return Setting(
        section=section,
        name=name,
        default=field.default,
        means=field.description or "",
        holds="texts" if get_args(field.annotation)[1:] == (str,) else "numbers",
        choices=tuple(map(str, choices)),
        least=float(least or 0.0) if least or most else None,
        most=None if most is None else float(most),
        is_duration=any(isinstance(validator, BeforeValidator) for validator in field.metadata),
        needs_restart=bool({section, f"{section}.{name}"} & NEEDS_RESTART),
    )
