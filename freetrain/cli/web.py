"""``freetrain web``: a page in the browser that says how the daemon and the machine stand."""

from __future__ import annotations

import logging
import os
import pwd
import signal
import sys
import time

import click

from freetrain.cli.helping import Group
from freetrain.cli.options import Duration
from freetrain.cli.site import Site, site_option
from freetrain.daemon.publisher import notify
from freetrain.durations import show_duration
from freetrain.errors import InputError
from freetrain.showing.ready_text import is_loopback
from freetrain.web.identity import Identities, make_key, make_token
from freetrain.web.server import LivePage, page_server

_STATUS_EVERY_S = 60.0


@click.group("web", cls=Group, invoke_without_command=True)
@site_option
@click.option("--host", default="127.0.0.1", help="Address of this machine to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=9811, help="0: any free one.")
@click.pass_context
def web_command(context: click.Context, site: Site, host: str, port: int) -> None:
    """Show in a browser how the daemon and the machine stand: nodes, trainings, decisions, delays; read-only.

    It runs in a process of its own and reads what the daemon published and its database, so run it as the daemon's
    account. Anybody who may connect sees the machine's page, so it listens on this machine alone unless --host
    says otherwise. /me is each user's own page, and /api/v1/ is for programs. Ctrl-C ends it.
    """
    if context.invoked_subcommand is not None:
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
@site_option
@click.option("--for", "lasts_s", type=Duration(), default="30d", help="How long it counts.")
@click.argument("user", required=False)
def token_command(site: Site, lasts_s: float, user: str | None) -> None:
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
