"""``freetrain web``: a page in the browser with the state of the daemon and the machine."""

from __future__ import annotations

import logging
import os
import pwd
import signal
import sys
import time

import click

from freetrain.cli.helping import group
from freetrain.cli.options import argument, option
from freetrain.cli.site import SiteContext
from freetrain.daemon.publisher import notify
from freetrain.durations import show_duration
from freetrain.errors import InputError
from freetrain.showing.ready_text import is_loopback
from freetrain.web.identity import Identities, make_key, make_token
from freetrain.web.server import LivePage, page_server

_STATUS_EVERY_S = 60.0


@group("web", invoke_without_command=True)
def web_command(
    site: SiteContext,
    host: str = option("--host", "Address of this machine to listen on.", default="127.0.0.1"),
    port: int = option("--port", "0: any free one.", type=click.IntRange(0, 65535), default=9811),
) -> None:
    """Show in a browser how the daemon and the machine stand: nodes, trainings, decisions, delays; read-only.

    It runs in a process of its own and reads what the daemon published and its database, so run it as the daemon's
    account. Anybody who may connect sees the machine's page, so it listens on this machine alone unless --host
    says otherwise. /me is each user's own page, and /api/v1/ is for programs. Ctrl-C ends it.
    """
    if click.get_current_context().invoked_subcommand is not None:
        return
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    live_page = LivePage(site.config)
    server = page_server(host, port, live_page, Identities(site.config.web, site.directory))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit())
    click.echo(f"The page is at {server.url}")
    if not is_loopback(host):
        click.echo(
            "Everybody who can reach this address sees the machine's page; there is no encryption.", err=True
        )
    notify(READY="1", STATUS=server.url)
    with server.running(), live_page.kept_fresh():
        while True:
            time.sleep(_STATUS_EVERY_S)
            notify(STATUS=f"{server.url}, {server.dropped} connections dropped")


@web_command.command("token")
def token_command(
    site: SiteContext,
    lasts_s: float = option("--for", "How long it counts.", default="30d"),
    user: str | None = argument(required=False),
) -> None:
    """Print a token by which 'freetrain web' knows USER: the password on its page, and a program's bearer token.

    Run it as the daemon's account. Without USER it is for the user that calls sudo: a site can let users run
    exactly 'sudo -u freetrain freetrain web token' (docs/admins/web.md).
    """
    name = user or os.environ.get("SUDO_USER") or pwd.getpwuid(os.geteuid()).pw_name
    key = make_key(site.directory)
    try:
        click.echo(make_token(key, name, time.time() + lasts_s))
    except ValueError as error:
        raise InputError(f"{error}.", "Give the name of an account.") from error
    click.echo(f"freetrain: for {show_duration(lasts_s)} it shows what {name} may see: keep it secret.", err=True)
