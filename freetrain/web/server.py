"""The server: answers GET and HEAD of one page, to few at a time."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import logging
import socket
import threading
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from freetrain.errors import InputError
from freetrain.web import page
from freetrain.web.live_page import LivePage, PageTooOldError

log = logging.getLogger(__name__)

_MOST_CONNECTIONS = 64
_PATIENCE_S = 10.0
_LOCAL_NAMES = frozenset(("localhost", "127.0.0.1", "[::1]"))


class PageServer(ThreadingHTTPServer):
    """Serves the page until it is shut down; connections beyond the most that it bears are closed at once.

    Args:
        host: address of this machine.
        port: 0: any that is free.
        live_page: what is served.

    Raises:
        InputError: the address cannot be used.
    """

    daemon_threads = True

    def __init__(self, host: str, port: int, live_page: LivePage) -> None:
        self.live_page = live_page
        self.is_local = _is_loopback(host)
        self._room = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), PageHandler)
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or error
            raise InputError(
                f"{host}, port {port} cannot be used: {why}.", "Give a free port and an address of this machine."
            ) from error

    @property
    def url(self) -> str:
        """Where the page is."""
        host, port = self.server_address[:2]
        shown = f"[{host!s}]" if self.address_family == socket.AF_INET6 else host
        return f"http://{shown!s}:{port}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own, if there is room."""
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and make room."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A reader who went away is no error; anything else is said, without stopping the others."""
        log.debug("a connection of %s ended early", client_address, exc_info=True)


class PageHandler(BaseHTTPRequestHandler):
    """Answers one request of one connection."""

    server: PageServer
    timeout = _PATIENCE_S
    server_version, sys_version = "freetrain", ""

    def do_GET(self) -> None:
        """The page, or a sentence why not."""
        if self.server.is_local and not _is_local_name(self.headers.get("Host", "")):
            # Another name that leads here may be of a page of somebody's that wants to read this one.
            self._say(HTTPStatus.FORBIDDEN, "This page is for http://localhost alone.")
        elif self.path.partition("?")[0] != "/":
            self._say(HTTPStatus.NOT_FOUND, "There is one page here: /")
        else:
            self._send_page()

    do_HEAD = do_GET  # noqa: N815 (the library's name)

    def _send_page(self) -> None:
        try:
            rendered = self.server.live_page.now()
        except PageTooOldError:
            self._say(HTTPStatus.SERVICE_UNAVAILABLE, "The page cannot be made; the server's log says why.")
            return
        headers = {"Vary": "Accept-Encoding"}
        if "gzip" in self.headers.get("Accept-Encoding", ""):
            self._send(HTTPStatus.OK, rendered.packed, {**headers, "Content-Encoding": "gzip"})
        else:
            self._send(HTTPStatus.OK, rendered.html, headers)

    def _say(self, status: HTTPStatus, sentence: str) -> None:
        self._send(status, f"{sentence}\n".encode(), {"Content-Type": "text/plain; charset=utf-8"})

    def _send(self, status: HTTPStatus, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {**_headers(), **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are nobody's news."""
        log.debug("%s: %s", self.address_string(), format % args)


def _headers() -> dict[str, str]:
    """What every answer carries: nothing is loaded from anywhere, and nobody else shows or runs this page."""
    policy = (
        f"default-src 'none'; style-src '{_digest(page.style())}'; script-src '{_digest(page.script())}'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": policy,
        "Cache-Control": "no-store",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Resource-Policy": "same-origin",
    }


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_local_name(host: str) -> bool:
    """Whether a Host header names this machine for itself; the port may be that of a tunnel."""
    name, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):
        name, port = host, ""
    return name.lower() in _LOCAL_NAMES and (not port or port.isdecimal())
