"""Texts made from the tag's keys: the grammar in job_submit.lua, the table in docs/users/tag.md. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from freetrain.core import bounds
from freetrain.core.bounds import Bound
from freetrain.slurm.tags import KEYS, TagKey

_BEGIN = "---- Made by python -m freetrain.config, of freetrain/slurm/tags.py and freetrain/core/bounds.py "
_END = "---- Written by hand again "
_BLOCK = re.compile(f"^{re.escape(_BEGIN)}-*\n.*?^{re.escape(_END)}", re.MULTILINE | re.DOTALL)
_ROWS = re.compile(r"(^\| `\w+` \| .* \|\n)+", re.MULTILINE)
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
    return _BLOCK.sub(lambda _: f"{_BEGIN:-<{_LUA_WIDTH}}\n\n{_grammar()}\n\n{_END}", script)


def with_key_table(page: str) -> str:
    """The text of docs/users/tag.md with the keys as they are now."""
    return _ROWS.sub(lambda _: "".join(f"| `{name}` | {key.meaning} |\n" for name, key in KEYS.items()), page, 1)


def _grammar() -> str:
    numbers = (f"    {name} = {_lua_bound(bound)}," for name, bound in _BOUNDS.items())
    keys = (f"    {_lua_key(name, key)}," for name, key in KEYS.items())
    return "\n".join(("local BOUND = {", *numbers, "}", "local KEYS = {", *keys, "}"))


def _lua_bound(bound: Bound) -> str:
    """A bound with the words for both, numbers that may be its least and numbers that may not."""
    above = replace(bound, is_open=True)
    return f'{{ least = {bound.least:.15g}, most = {bound.most:.15g}, words = "{bound}", above = "{above}" }}'


def _lua_key(name: str, key: TagKey) -> str:
    return f"{{ {', '.join(_lua_fields(name, key))} }}"


def _lua_fields(name: str, key: TagKey) -> Iterator[str]:
    yield f'name = "{name}"'
    yield f'reader = "{key.read.__name__.removeprefix("read_")}"'
    if key.only is not None:
        yield f'only = "{key.only}"'
