"""The page's answers: what is sent to whom, with which headers."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from http import HTTPStatus

from freetrain.errors import InputError
from freetrain.showing.ready_text import Answer, ReadyTextServer, Request, is_loopback, sentence
from freetrain.web import page
from freetrain.web.live_page import LivePage, PageTooOldError

_LOCAL_NAMES = frozenset(("localhost", "127.0.0.1", "[::1]"))


def page_server(host: str, port: int, live_page: LivePage) -> ReadyTextServer:
    """A server of the page.

    Args:
        host: address of this machine.
        port: 0: any that is free.
        live_page: what is served.

    Raises:
        InputError: the address cannot be used.
    """
    try:
        return ReadyTextServer(host, port, page_answers(live_page, is_local=is_loopback(host)))
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(
            f"{host}, port {port} cannot be used: {why}.", "Give a free port and an address of this machine."
        ) from error


def page_answers(live_page: LivePage, is_local: bool) -> Callable[[Request], Answer]:
    """The answer to each request.

    Args:
        live_page: what is served.
        is_local: whether it is for this machine alone.
    """
    headers = _headers()

    def answer(request: Request) -> Answer:
        if is_local and not _is_local_name(request.headers.get("host", "")):
            # Another name that leads here may be of a page of somebody's that wants to read this one.
            return sentence(HTTPStatus.FORBIDDEN, "This page is for http://localhost alone.")
        if request.path != "/":
            return sentence(HTTPStatus.NOT_FOUND, "There is one page here: /")
        try:
            rendered = live_page.now()
        except PageTooOldError:
            return sentence(HTTPStatus.SERVICE_UNAVAILABLE, "The page cannot be made; the server's log says why.")
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Answer(rendered.packed, {**headers, "Content-Encoding": "gzip"})
        return Answer(rendered.html, headers)

    return answer


def _headers() -> dict[str, str]:
    """What the page is sent with: nothing is loaded from anywhere, and nobody else shows or runs this page."""
    policy = (
        f"default-src 'none'; style-src '{_digest(page.style())}'; script-src '{_digest(page.script())}'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": policy,
        "Cache-Control": "no-store",
        "Vary": "Accept-Encoding",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Resource-Policy": "same-origin",
    }


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _is_local_name(host: str) -> bool:
    """Whether a Host header names this machine for itself; the port may be that of a tunnel."""
    name, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):
        name, port = host, ""
    return name.lower() in _LOCAL_NAMES and (not port or port.isdecimal())
