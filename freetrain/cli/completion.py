"""``freetrain completion``: lets a shell complete freetrain's commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from freetrain.cli.helping import command

_VARIABLE = "_FREETRAIN_COMPLETE"


@command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion_command(context: click.Context, shell: str) -> None:
    """Print what makes SHELL complete freetrain's commands and options.

    \b
    bash:  freetrain completion bash > /etc/bash_completion.d/freetrain
    zsh:   freetrain completion zsh > /usr/local/share/zsh/site-functions/_freetrain
    fish:  freetrain completion fish > /etc/fish/completions/freetrain.fish
    """  # noqa: D301 (click wants the character itself)
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(context.find_root().command, {}, "freetrain", _VARIABLE).source())
