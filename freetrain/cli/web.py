"""``freetrain web``: a page in the browser that says how the daemon and the machine stand."""

from __future__ import annotations

import logging
import signal
import sys
import time
from pathlib import Path

import click

from freetrain.cli.helping import command
from freetrain.cli.options import config_option
from freetrain.config import load_config
from freetrain.daemon.reports.notify import notify
from freetrain.showing.ready_text import is_loopback
from freetrain.web.server import LivePage, page_server

_STATUS_EVERY_S = 60.0


@command("web")
@config_option
@click.option("--host", default="127.0.0.1", show_default=True, help="Address of this machine to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=9811, show_default=True, help="0: any free one.")
def web_command(config_path: Path | None, host: str, port: int) -> None:
    """Show in a browser how the daemon and the machine stand: nodes, trainings, decisions, delays; read-only.

    It runs in a process of its own and reads what the daemon published and its database, so run it as the daemon's
    account. Anybody who may connect sees all of it: there is no password, so it listens on this machine alone
    unless --host says otherwise. Ctrl-C ends it.
    """
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    live_page = LivePage(load_config(config_path).config)
    server = page_server(host, port, live_page)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit())
    click.echo(f"The page is at {server.url}")
    if not is_loopback(host):
        click.echo(
            "Everybody who can reach this address sees it: there is no password and no encryption.", err=True
        )
    notify(READY="1", STATUS=server.url)
    with server.running(), live_page.kept_fresh():
        while True:
            time.sleep(_STATUS_EVERY_S)
            notify(STATUS=f"{server.url}, {server.dropped} connections dropped")
