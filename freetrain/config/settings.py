"""The model of all settings, its settings as a list, and the files: reader and mistakes."""

from __future__ import annotations

import difflib
import json
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, reduce
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BeforeValidator, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

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
from freetrain.config.values import PathMark, Section, SettingsTogetherError
from freetrain.core.bounds import SECONDS
from freetrain.durations import show_duration
from freetrain.errors import ExitCode, FreetrainError


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
        holds: type of a table's values: numbers or texts.
        choices: the words that it, or each value of a table, may be; none: it is no word of a few.
        least: its smallest value; None: there is none that is worth mentioning.
        most: its largest value, likewise.
        is_path: whether it is a path that has to be absolute.
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
    is_path: bool
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
        """Lines of the file that set it to a value, its table first."""
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
    for name, table in Config.model_fields.items():
        kind = table.annotation
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
    for name, info in kind.model_fields.items():
        if isinstance(info.annotation, type) and issubclass(info.annotation, Section):
            yield from ((f"{name}.{inner}", inner_info) for inner, inner_info in _fields(info.annotation))
        else:
            yield name, info


def _setting(section: str, name: str, field: FieldInfo) -> Setting:
    # A duration of this model has the bound of its kind, and may have a narrower one of its own.
    least = max((bound.ge for bound in field.metadata if hasattr(bound, "ge")), default=None)
    most = min((bound.le for bound in field.metadata if hasattr(bound, "le")), default=None)
    # Of all durations, and not worth mentioning
    most = None if most == SECONDS.most else most
    values = get_args(field.annotation)[1] if get_origin(field.annotation) is dict else field.annotation
    choices = get_args(values) if get_origin(values) is Literal else ()
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
        is_path=any(isinstance(mark, PathMark) for mark in field.metadata),
        needs_restart=bool({section, f"{section}.{name}"} & NEEDS_RESTART),
    )


CONFIG_VARIABLE = "FREETRAIN_CONFIG"
DEFAULT_PATH = Path("/etc/freetrain/freetrain.toml")
# Its loss is dangerous: what is lent would stay lent, and nobody would look after it.
_MODE = "lend.mode"


class ConfigError(FreetrainError):
    """The configuration cannot be used.

    ``mend`` are the lines of freetrain.toml that mend it, ``file`` is the file that cannot be used.
    """

    def __init__(self, what: str, hint: str = "", mend: str = "", file: Path | None = None) -> None:
        super().__init__(what, hint, ExitCode.CONFIGURATION)
        self.mend = mend
        self.file = file


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration and the files that it came from.

    Attributes:
        sources: the files, later ones override earlier ones; none: the defaults.
        origins: setting, as ``lend.mode`` → the file that gave it; the others have their defaults.
        texts: what the files held when they were read.
    """

    config: Config
    sources: tuple[Path, ...] = ()
    origins: Mapping[str, Path] = field(default_factory=dict)
    texts: Mapping[Path, str] = field(default_factory=dict)

    def require_whole_after(self, before: Loaded) -> None:
        """Refuse what an interrupted write, or a file system that went away, has left of the settings.

        Raises:
            ConfigError: a file has lost its end, the first file is gone, or no file names ``lend.mode`` any more
                although it was ``act``.
        """
        for path, text in self.texts.items():
            old = before.texts.get(path, "")
            if text != old and old.startswith(text):
                left = f"of {len(old.splitlines())} lines {len(text.splitlines())} are left"
                raise ConfigError(
                    f"{path} {'has lost its end' if text.strip() else 'is empty'}: {left}.",
                    "If that is meant, write a comment below the last line.",
                    file=path,
                )
        if before.sources and before.sources[0] not in self.sources:
            raise ConfigError(
                f"{before.sources[0]} is gone.", "Put it back; a file of comments alone has defaults."
            )
        if before.config.lend.mode == "act" and self.config.lend.mode != "act" and _MODE not in self.origins:
            raise ConfigError(
                "no file names lend.mode any more, which was act: what is lent would stay lent, and nobody would "
                "look after it.",
                'If that is meant, write mode = "observe" into [lend].',
            )


def find_sources(named: Path | None = None) -> tuple[Path, ...]:
    """This file, or that of ``$FREETRAIN_CONFIG``, or that of the default place, and its drop-ins.

    Drop-ins are ``conf.d/*.toml`` beside the file, in the order of their names. Where no file is named and
    there is none in the default place, there are no sources.
    """
    given = named or (Path(os.environ[CONFIG_VARIABLE]) if os.environ.get(CONFIG_VARIABLE) else None)
    path = given or DEFAULT_PATH
    if given is None and not path.exists():
        return ()
    return (path, *sorted((path.parent / "conf.d").glob("*.toml")))


def load_config(named: Path | None = None) -> Loaded:
    """The configuration that :func:`find_sources` finds; drop-ins override what is read before them.

    Raises:
        ConfigError: a file cannot be read, or says something that cannot be.
    """
    sources = find_sources(named)
    texts: dict[Path, str] = {}
    documents: dict[Path, dict[str, Any]] = {}
    for mistake in _mistakes(sources, texts, documents):
        raise mistake
    merged, origins = _merged(documents)
    return Loaded(Config.model_validate(merged), sources, origins, texts)


def find_mistakes(named: Path | None = None) -> list[ConfigError]:
    """All reasons why the configuration cannot be read; none: it can be."""
    return list(_mistakes(find_sources(named), {}, {}))


def _mistakes(
    sources: Iterable[Path], texts: dict[Path, str], documents: dict[Path, dict[str, Any]]
) -> Iterator[ConfigError]:
    """Mistakes of each file by itself; where there are none, those of all files together.

    Each file is read once: its text and its settings are kept in ``texts`` and ``documents``.
    """
    clean = True
    for number, source in enumerate(sources):
        try:
            texts[source], documents[source] = _read(source, is_first=number == 0)
        except ConfigError as error:
            yield error
            clean = False
            continue
        for mistake in _mistakes_of(documents[source], source):
            yield mistake
            clean = False
    if clean and len(documents) > 1:
        yield from _mistakes_of(_merged(documents)[0], next(iter(documents)))


def _merged(documents: Mapping[Path, Mapping[str, Any]]) -> tuple[dict[str, Any], dict[str, Path]]:
    merged: dict[str, Any] = {}
    origins: dict[str, Path] = {}
    for source, document in documents.items():
        for section, values in document.items():
            # Setting by setting: a drop-in that names one of a table leaves the others as they were.
            merged.setdefault(section, {}).update(values)
            origins |= {f"{section}.{name}": source for name in values}
            tables = ((name, inner) for name, inner in values.items() if isinstance(inner, dict))
            origins |= {f"{section}.{name}.{inner}": source for name, table in tables for inner in table}
    return merged, origins


def _read(path: Path, is_first: bool) -> tuple[str, dict[str, Any]]:
    """Text of a file, and its settings."""
    try:
        text = path.read_text()
        if is_first and not text.strip() and path.is_file():
            raise ConfigError(
                f"{path} is empty, as an interrupted write leaves a file.",
                "If you want the defaults, write a comment into it.",
            )
        return text, tomllib.loads(text)
    except OSError as error:
        raise ConfigError(
            f"cannot read the configuration {path}: {error.strerror}.", "Name a file that you can read."
        ) from error
    # ValueError: it is not UTF-8, or not TOML, or has a number of more digits than Python reads
    except (ValueError, RecursionError) as error:
        why = error if isinstance(error, ValueError) else "it is nested too deep"
        raise ConfigError(
            f"{path} is not TOML: {why}.", 'Write tables as [lend] and text as mode = "act".'
        ) from error


def _mistakes_of(document: Mapping[str, Any], path: Path) -> Iterator[ConfigError]:
    try:
        Config.model_validate(document)
    except ValidationError as error:
        for details in error.errors(include_url=False):
            yield _mistake(details, path)


def _mistake(details: ErrorDetails, path: Path) -> ConfigError:
    loc, given = tuple(map(str, details["loc"])), details["input"]
    where = ".".join(loc)
    if details["type"] == "extra_forbidden":
        return ConfigError(f"{path}: there is no setting {where}.", *_did_you_mean(loc, given), path)
    problem = details["msg"].removeprefix("Value error, ")
    setting = find_setting(where) or find_setting(".".join(loc[:2]))
    what = f"{path}: {where}: {problem} (it says {given!r})."
    if setting is None:
        together = details.get("ctx", {}).get("error")
        line = f"\n{together.mend}" if isinstance(together, SettingsTogetherError) else ""
        return ConfigError(what, "", f"[{loc[0]}]{line}" if loc else "", path)
    return ConfigError(what, f"It takes {setting.takes}.", setting.lines, path)


def _did_you_mean(loc: tuple[str, ...], given: object) -> tuple[str, str]:
    known = {name: list(kind.model_fields) for name, kind in sections()}
    among = known.get(loc[0], []) if len(loc) > 1 else list(known)
    if near := difflib.get_close_matches(loc[-1], among, 1):
        line = f"[{near[0]}]" if len(loc) == 1 else _line(f"{loc[0]}.{near[0]}", given)
        return f"Did you mean {near[0]}?", line
    if homes := [section for section, names in known.items() if loc[-1] in names]:
        return f"It belongs into [{homes[0]}].", _line(f"{homes[0]}.{loc[-1]}", given)
    return f"There are {', '.join(among)}.", ""


def _line(path: str, given: object) -> str:
    setting = find_setting(path)
    if setting is None:
        return f"[{path}]"  # a table of settings
    return setting.set_to(given) if isinstance(given, str | int | float | dict) else setting.lines
