"""The texts that are made of the model: the example file, the reference page and the man page. Pure.

Beside them, parts of texts that are made of the tag's keys.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from freetrain.config.settings import Setting, sections, settings
from freetrain.core import bounds
from freetrain.core.bounds import Bound
from freetrain.slurm.tags import KEYS, TagKey

_WIDTH = 110
_PLACES = """
The daemon and all commands read /etc/freetrain/freetrain.toml, or the file that the variable FREETRAIN_CONFIG or
the option --config names, and then the drop-ins conf.d/*.toml beside it in the order of their names: what is read
later overrides what was read before. The form is TOML. Without any file the defaults count.
"""
_VALUES = """
A duration is a number of seconds, or text as Slurm writes it: "90s", "15m", "2h", "10:00", "1:00:00", "1-12",
"UNLIMITED". Nodes are written as "c[01-16,20]"; groups of the site's ClusterShell (/etc/clustershell/groups.conf,
or that of $CLUSTERSHELL_CFGDIR) as "@rack2" or "@source:rack2". A group stands for the nodes that it has when the
file is read.
"""
_CHECKING = """
'freetrain config check' finds what is wrong with the files and with Slurm's side of them, and prints the lines
that mend it; 'freetrain config show --origin' says which file each value comes from, 'freetrain config diff' what
differs from the defaults, and 'freetrain config init' writes a first configuration for the Slurm that it finds.
'systemctl reload freetrain' (SIGHUP) takes new settings over, all of them or, if something is wrong, none; those
that need a restart stay as they were until then.
"""


def escaped(text: str) -> str:
    """Text in which nothing is a request or a special character."""
    plain = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace('"', "\\(dq")
    return f"\\&{plain}" if plain.startswith(".") else plain


def example_file(given: Mapping[str, object] | None = None) -> str:
    """Every setting with its meaning and its default, commented out, or with the value that is given for it."""
    given = given or {}
    blocks = ["# Settings of freetrain's daemon. All are shown with their defaults; uncomment what you change."]
    for section, about, its_settings in _tables():
        lines = [f"# {about}", f"[{section}]"]
        for setting in its_settings:
            choices = f"          # {' | '.join(setting.choices)}" if setting.choices else ""
            line = f"# {setting.line}{choices}"
            if setting.path in given:
                line = f"{setting.name} = {setting.show(given[setting.path])}"
            lines += ["", _wrapped(setting.means, "# "), line]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


def reference_page() -> str:
    """The page of the documentation."""
    blocks = ["# Configuration", *map(_wrapped, (_PLACES, _VALUES, _CHECKING))]
    blocks.append("Settings marked with \\* need a restart of the daemon. This page is made from the model.")
    for section, about, its_settings in _tables():
        blocks.append(f"## [{section}]\n\n{about}")
        rows = ["| setting | default | values | meaning |", "|---|---|---|---|"]
        for setting in its_settings:
            star = "\\*" if setting.needs_restart else ""
            takes = setting.takes.replace("|", "\\|")
            default = setting.show(setting.default)
            rows.append(f"| `{setting.name}`{star} | `{default}` | {takes} | {setting.means} |")
        blocks.append("\n".join(rows))
    return "\n\n".join(blocks) + "\n"


def man_page() -> str:
    """freetrain.toml(5)."""
    lines = [
        '.TH FREETRAIN.TOML 5 "" freetrain "File formats"',
        ".SH NAME",
        "freetrain.toml \\- settings of freetrain's daemon",
        ".SH SYNOPSIS",
        *("/etc/freetrain/freetrain.toml", ".br", "/etc/freetrain/conf.d/*.toml"),
        ".SH DESCRIPTION",
    ]
    for number, text in enumerate((_PLACES, _VALUES, _CHECKING)):
        lines += [*([".PP"] if number else []), escaped(text.strip())]
    lines.append(".SH SETTINGS")
    for section, about, its_settings in _tables():
        lines += [f".SS [{section}]", escaped(about)]
        for setting in its_settings:
            needs = " Needs a restart." if setting.needs_restart else ""
            lines += [".TP", f".B {escaped(setting.line)}", escaped(setting.means), ".br"]
            lines.append(escaped(f"Takes {setting.takes}.{needs}"))
    lines += [
        ".SH SEE ALSO",
        ".BR freetrain (1),",
        ".BR freetraind (8),",
        ".BR slurm.conf (5),",
        ".BR scontrol (1),",
        ".BR sacctmgr (1)",
    ]
    return "\n".join(lines) + "\n"


DOCUMENTS: Mapping[str, Callable[[], str]] = {
    "etc/freetrain.toml": example_file,
    "docs/reference/settings.md": reference_page,
    "etc/man/freetrain.toml.5": man_page,
}
"""Texts: path in the project → function that makes the text."""


def write_documents(project: Path) -> None:
    """Write them all into the project's folders ``etc`` and ``docs``."""
    for name, made in DOCUMENTS.items():
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(made())
    for name, renewed in PARTLY_MADE.items():
        (project / name).write_text(renewed((project / name).read_text()))


def _tables() -> Iterator[tuple[str, str, list[Setting]]]:
    """Tables of the file: name, paragraph on it, and its settings."""
    for section, kind in sections():
        yield section, (kind.__doc__ or "").strip(), [known for known in settings() if known.section == section]


def _wrapped(text: str, before: str = "") -> str:
    plain = " ".join(text.split())
    lines = textwrap.wrap(plain, _WIDTH, break_long_words=False, break_on_hyphens=False)
    return "\n".join(f"{before}{line}" for line in lines)


_BEGIN = "---- Made by python -m freetrain.config, of freetrain/slurm/tags.py and freetrain/core/bounds.py "
_END = "---- Written by hand again "
_BLOCK = re.compile(f"^{re.escape(_BEGIN)}-*\n.*?^{re.escape(_END)}", re.MULTILINE | re.DOTALL)
_ROWS = re.compile(r"(^\| `\w+` \|.*\|\n)+", re.MULTILINE)
_LUA_WIDTH = 119

_BOUNDS = {
    "nodes": bounds.NODES,
    "seconds": bounds.SECONDS,
    "samples": bounds.SAMPLES,
    "weight": bounds.OWNERS_WEIGHT,
    "servers": bounds.SERVERS,
    "step": bounds.STEP_COEFFICIENT_S,
    "bytes": bounds.BYTES_PER_SAMPLE,
}


def with_grammar(script: str) -> str:
    """The text of job_submit.lua with the keys, their readers and their bounds as they are now."""
    numbers = (f"    {name} = {_lua_bound(bound)}," for name, bound in _BOUNDS.items())
    keys = (f"    {{ {', '.join(_lua_fields(name, key))} }}," for name, key in KEYS.items())
    grammar = "\n".join(("local BOUND = {", *numbers, "}", "local KEYS = {", *keys, "}"))
    return _BLOCK.sub(lambda _: f"{_BEGIN:-<{_LUA_WIDTH}}\n\n{grammar}\n\n{_END}", script)


def with_key_table(page: str) -> str:
    """The text of docs/users/tag.md with the keys as they are now."""
    rows = (f"| `{name}` | {key.only or ''} | {key.meaning} |\n" for name, key in KEYS.items())
    return _ROWS.sub(lambda _: "".join(rows), page, 1)


def _lua_bound(bound: Bound) -> str:
    """A bound with the words for both, numbers that may be its least and numbers that may not."""
    above = replace(bound, is_open=True)
    return f'{{ least = {bound.least:.15g}, most = {bound.most:.15g}, words = "{bound}", above = "{above}" }}'


def _lua_fields(name: str, key: TagKey) -> Iterator[str]:
    yield f'name = "{name}"'
    yield f'reader = "{key.read.__name__.removeprefix("read_")}"'
    if key.only is not None:
        yield f'only = "{key.only}"'


PARTLY_MADE: Mapping[str, Callable[[str], str]] = {
    "etc/slurm/job_submit.lua": with_grammar,
    "docs/users/tag.md": with_key_table,
}
"""Texts of which a part is made: path in the project → function that renews that part."""
