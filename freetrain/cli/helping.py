"""Help: commands in groups, and of a command with many options the common ones first (``--help-all``: all)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click
from click.shell_completion import get_completion_class

from freetrain.cli.options import argument, with_options

_ALL = f"{__name__}.all"


class FreetrainCommand(click.Command):
    """A command of freetrain; ``--help`` shows the options ``first``, by their long names; none: all."""

    def __init__(self, *arguments: Any, first: Sequence[str] = (), **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.first = first
        if first:
            means = "Show all options and exit."
            flag = {"is_flag": True, "is_eager": True, "expose_value": False}
            self.params.append(click.Option(["--help-all"], callback=_show_all, help=means, **flag))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the common options, and the number of the others; all of them where these are asked for."""
        if not self.first or ctx.meta.get(_ALL):
            super().format_options(ctx, formatter)
            return
        by_name = {name: option for option in self.params for name in option.opts}
        records = [by_name[name].get_help_record(ctx) for name in self.first]
        with formatter.section("Common options"):
            formatter.write_dl([record for record in records if record])
        shown = sum(isinstance(option, click.Option) and not option.hidden for option in self.params)
        formatter.write_paragraph()
        formatter.write_text(f"{shown - 1 - len(records)} more options: {ctx.command_path} --help-all")


class FreetrainGroup(click.Group):
    """A command of freetrain that has commands."""

    def command(  # type: ignore[override]
        self, *arguments: Any, **settings: Any
    ) -> Callable[[Callable[..., Any]], click.Command]:
        """A decorator that makes a command of a function, as :func:`command`."""
        make = super().command(*arguments, cls=FreetrainCommand, **settings)
        return lambda function: make(with_options(function))


def command(name: str, **settings: Any) -> Callable[[Callable[..., Any]], click.Command]:
    """A decorator that makes a :class:`Command` of a function, whose parameters are its options."""
    return lambda function: click.command(name, cls=FreetrainCommand, **settings)(with_options(function))


def group(name: str, **settings: Any) -> Callable[[Callable[..., Any]], FreetrainGroup]:
    """A decorator that makes a :class:`Group` of a function in the same way."""
    return lambda function: click.group(name, cls=FreetrainGroup, **settings)(with_options(function))


class RenamedOption(click.Option):
    """An option whose last name is a former one: taken still, and shown no more."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Names of the option without the former one, and its help."""
        names, self.opts = self.opts, self.opts[:-1]
        try:
            return super().get_help_record(ctx)
        finally:
            self.opts = names


def _show_all(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted:
        context.meta[_ALL] = True
        click.echo(context.get_help(), color=context.color)
        context.exit()


_VARIABLE = "_FREETRAIN_COMPLETE"


@command("completion")
def completion_command(shell: str = argument(type=click.Choice(["bash", "zsh", "fish"]))) -> None:
    """Print what makes SHELL complete freetrain's commands and options.

    \b
    bash:  freetrain completion bash > /etc/bash_completion.d/freetrain
    zsh:   freetrain completion zsh > /usr/local/share/zsh/site-functions/_freetrain
    fish:  freetrain completion fish > /etc/fish/completions/freetrain.fish
    """  # noqa: D301 (click wants the character itself)
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(click.get_current_context().find_root().command, {}, "freetrain", _VARIABLE).source())
