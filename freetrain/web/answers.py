"""The answer to each request: who asks, what stands at the path, and whether they may see it."""

from __future__ import annotations

import base64
import hashlib
import time
from dataclasses import replace
from http import HTTPStatus

from freetrain.errors import InputError
from freetrain.showing.ready_text import HttpAnswer, HttpRequest, ReadyTextServer, is_loopback, sentence
from freetrain.web import page
from freetrain.web.api import DESCRIPTION, ENDPOINTS, PREFIX, description
from freetrain.web.identity import Identities, UnknownUserError
from freetrain.web.server import OWN_PAGE, LivePage, PageTooOldError, Rendered, packed

PATHS = ("/", OWN_PAGE, *(PREFIX + name for name in (*ENDPOINTS, DESCRIPTION)))
_LOCAL_NAMES = frozenset(("localhost", "127.0.0.1", "[::1]"))
_CHALLENGE = {"WWW-Authenticate": 'Basic realm="freetrain", charset="UTF-8"'}
"""Makes a browser ask for a name and a password."""


class _UserNeededError(UnknownUserError):
    """Only users get this, and nobody says who asks."""


def page_server(host: str, port: int, live_page: LivePage, identities: Identities) -> ReadyTextServer:
    """A server of the page.

    Args:
        host: address of this machine.
        port: 0: any that is free.
        live_page: what is served.
        identities: finds out who asks.

    Raises:
        InputError: the address cannot be used.
    """
    try:
        return ReadyTextServer(host, port, Answers(live_page, identities, is_local=is_loopback(host)).answer)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(
            f"{host}, port {port} cannot be used: {why}.", "Give a free port and an address of this machine."
        ) from error


class Answers:
    """Answers from what was made already, or is made in milliseconds: no request waits.

    Args:
        live_page: what is served.
        identities: finds out who asks.
        is_local: whether it is for this machine alone.
    """

    def __init__(self, live_page: LivePage, identities: Identities, is_local: bool) -> None:
        self._live_page = live_page
        self._identities = identities
        self._is_local = is_local
        self._html, self._json = _headers("text/html; charset=utf-8"), _headers("application/json")

    def answer(self, request: HttpRequest) -> HttpAnswer:
        """The answer to a request."""
        if self._is_local and not _is_local_name(request.headers.get("host", "")):
            # Another name that leads here may be of a page of somebody's that wants to read this one.
            return sentence(HTTPStatus.FORBIDDEN, "This page is for http://localhost alone.")
        if request.path not in PATHS:
            return sentence(HTTPStatus.NOT_FOUND, f"There are {', '.join(PATHS)}.")
        try:
            rendered = self._find(request.path, self._identities.user_of(request, time.time()))
        except UnknownUserError as error:
            refusal = sentence(HTTPStatus.UNAUTHORIZED, str(error))
            return replace(refusal, headers={**refusal.headers, **_CHALLENGE})
        except PageTooOldError:
            return sentence(HTTPStatus.SERVICE_UNAVAILABLE, "The page cannot be made; the server's log says why.")
        headers = self._json if request.path.startswith(PREFIX) else self._html
        if "gzip" in request.headers.get("accept-encoding", ""):
            return HttpAnswer(rendered.packed, {**headers, "Content-Encoding": "gzip"})
        return HttpAnswer(rendered.plain, headers)

    def _find(self, path: str, user: str) -> Rendered:
        """What stands at a path for this user."""
        name = path.removeprefix(PREFIX)
        if name == DESCRIPTION:
            return packed(description())
        if path == "/":
            return self._live_page.now()
        if not user and (path == OWN_PAGE or self._live_page.needs_user(name)):
            raise _UserNeededError("Say who you are: the password is a token, which 'freetrain web token' makes.")
        return self._live_page.own_page(user) if path == OWN_PAGE else self._live_page.document(name, user)


def _headers(content_type: str) -> dict[str, str]:
    """What the page is sent with: nothing is loaded from anywhere, and nobody else shows or runs this page."""
    policy = (
        f"default-src 'none'; style-src '{_digest(page.style())}'; script-src '{_digest(page.script())}'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return {
        "Content-Type": content_type,
        "Content-Security-Policy": policy,
        "Cache-Control": "no-store",
        "Vary": "Accept-Encoding, Authorization",
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
