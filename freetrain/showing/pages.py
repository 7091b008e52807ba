"""Templates and style of all HTML pages: one environment of templates, and one style."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup, escape

from freetrain.showing import palette, words

_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
_WORDS = (
    words.count, words.number, words.share, words.moment, words.amount, words.large, words.brief_duration,
    words.show_time,
)  # fmt: skip


def fill(package: str, template: str, style: str, **values: Any) -> str:
    """A page of a package's template, with a style of :func:`style_of`.

    Everything but the template's own markup is escaped.
    """
    return _template(package, template).render(style=Markup(style), palette=palette, **values)


def with_whole_options(text: str) -> Markup:
    """A text in which no line ends within the name of an option."""
    return Markup(_OPTION.sub(r'<span class="whole">\g<0></span>', str(escape(text))))


@cache
def style_of(package: str, name: str) -> str:
    """The style of all pages and, after it, that of some: a file in their package."""
    light, dark = (
        " ".join(f"--{name}: {colour};" for name, colour in colours.items())
        for colours in (palette.LIGHT, palette.DARK)
    )
    variables = f":root {{ {light} }}\n@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"
    return variables + _text(__package__, "page.css") + _text(package, name)


@cache
def _template(package: str, name: str) -> Template:
    environment = Environment(undefined=StrictUndefined, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.globals.update({word.__name__: word for word in _WORDS})
    environment.filters[with_whole_options.__name__] = with_whole_options
    environment.globals["colour"] = palette.trainer_colour
    return environment.from_string(_text(package, name))


def _text(package: str, name: str) -> str:
    return files(package).joinpath(name).read_text(encoding="utf-8")
