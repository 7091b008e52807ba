"""Server of the page, made after each look, once a second at most, and of pages and documents for users."""

from __future__ import annotations

import base64
import gzip
import hashlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path

from freetrain.config import Config
from freetrain.daemon.reports.standing import find_standing
from freetrain.daemon.reports.status import STATUS_NAME
from freetrain.daemon.trainers.needs import needs_of
from freetrain.errors import InputError
from freetrain.showing.ready_text import HttpAnswer, HttpRequest, ReadyTextServer, is_loopback, sentence
from freetrain.store.store import DAEMONS_STORE
from freetrain.web import page
from freetrain.web.api import DESCRIPTION, ENDPOINTS, PREFIX, as_json, description
from freetrain.web.facts import DaemonHistory, PageFacts, read_history
from freetrain.web.identity import Identities, UnknownUserError
from freetrain.web.over_time import PAST_S
from freetrain.web.page import render, render_own

log = logging.getLogger(__name__)

_MIN_INTERVAL_S, _REST = 1.0, 9.0
"""Least seconds between two pages, and rest per time of making one, which takes a tenth of the time at most."""
_ASKED_S, _SOON_S, _SELDOM_S = 600.0, 10.0, 60.0
"""Seconds after a request for which pages are made soon even without a look, else seldom; both intervals."""
_TOO_OLD_S = 300.0
_PAST_FRESH_S = 30.0
_TICK_S = 0.25
_OTHERS_MAY_READ = 0o004
OWN_PAGE = "/me"


@dataclass(frozen=True, slots=True)
class Rendered:
    """A text as it is sent: whole, UTF-8, and packed with gzip."""

    plain: bytes
    packed: bytes


@dataclass(frozen=True, slots=True)
class _Made:
    """Output of one time: the page, its facts, and by path and user the answers that were made since."""

    page: Rendered
    facts: PageFacts
    of_users: dict[tuple[str, str], Rendered] = field(default_factory=dict)


class PageTooOldError(Exception):
    """Error where the page could not be made for a while; the last one would be misleading."""


class LivePage:
    """The page, made again and again in a thread of its own: nobody who asks for it waits until it is made.

    It is made after each look of the daemon's, or every ten seconds, and the database is read once for each look.
    While nobody has asked for ten minutes, it is made once a minute.
    """

    def __init__(self, config: Config, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._config = config
        self._directory = Path(config.state.directory)
        self._clock_s = clock_s
        self._asked_s = clock_s()
        self._made_s, self._took_s, self._made_of = 0.0, 0.0, 0
        self._past = DaemonHistory()
        self._past_of: tuple[object, ...] = ()
        self._needs = needs_of(config)
        self._made = self._make()

    def now(self) -> Rendered:
        """The page, with the time of which it is.

        Raises:
            PageTooOldError: it could not be made for a while.
        """
        return self._newest().page

    def own_page(self, user: str) -> Rendered:
        """The page of a user; see :meth:`now`."""
        return self._of_user(OWN_PAGE, user, lambda facts: render_own(facts, user).encode())

    def needs_user(self, name: str) -> bool:
        """Whether a document of the API's is for users alone; see :meth:`now`."""
        return ENDPOINTS[name].needs_user(self._newest().facts)

    def document(self, name: str, user: str) -> Rendered:
        """A document of the API's for a user; see :meth:`now`."""
        return self._of_user(name, user, lambda facts: as_json(ENDPOINTS[name].document(facts, user)))

    def _of_user(self, path: str, user: str, make: Callable[[PageFacts], bytes]) -> Rendered:
        """Page or document of a user, made once until there are newer facts."""
        made = self._newest()
        if (path, user) not in made.of_users:
            made.of_users[path, user] = packed(make(made.facts))
        return made.of_users[path, user]

    def _newest(self) -> _Made:
        self._asked_s = self._clock_s()
        if self._asked_s - self._made_s > _TOO_OLD_S:
            raise PageTooOldError
        return self._made

    def renew(self) -> None:
        """Make the page again, if it is time to."""
        now_s = self._clock_s()
        waited_s = now_s - self._made_s
        if waited_s < max(_MIN_INTERVAL_S, _REST * self._took_s):
            return
        is_wanted = now_s - self._asked_s < _ASKED_S
        has_looked = is_wanted and self._published() != self._made_of
        if has_looked or waited_s >= (_SOON_S if is_wanted else _SELDOM_S):
            self._made = self._make()

    @contextmanager
    def kept_fresh(self) -> Iterator[None]:
        """Make the page again and again while the block runs; errors are logged, and it is tried again."""
        stop = threading.Event()
        thread = threading.Thread(target=self._keep_fresh, args=(stop,), name="page", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _keep_fresh(self, stop: threading.Event) -> None:
        while not stop.wait(_TICK_S):
            try:
                self.renew()
            except Exception:
                log.exception("the page cannot be made")
                stop.wait(_SOON_S)

    def _make(self) -> _Made:
        began_s, of, facts = self._clock_s(), self._published(), self._facts()
        made = _Made(packed(render(facts).encode()), facts)
        self._made_s, self._made_of = self._clock_s(), of
        self._took_s = self._made_s - began_s
        return made

    def _published(self) -> int:
        try:
            return (self._directory / STATUS_NAME).stat().st_mtime_ns
        except OSError:
            return 0

    def _facts(self) -> PageFacts:
        standing = find_standing(self._config)
        look = standing.last_look
        # The history is read again after each look, and now and then without one.
        past_of = (look.time_s if look else None, int(standing.now_s / _PAST_FRESH_S))
        if past_of != self._past_of:
            trainers = [trainer.id for trainer in look.trainers] if look else []
            self._past = read_history(self._directory / DAEMONS_STORE, standing.now_s - PAST_S, trainers)
            self._past_of = past_of
        past, path = self._past, self._directory / STATUS_NAME
        try:
            may_read = bool(path.stat().st_mode & _OTHERS_MAY_READ)
        except FileNotFoundError:
            return PageFacts(standing, past, needs=self._needs)
        except OSError:
            return PageFacts(standing, past, is_hidden=True, is_private=True)
        return PageFacts(standing, past, standing.status is None, not may_read, self._needs)


def packed(plain: bytes) -> Rendered:
    """A text, ready to be sent."""
    return Rendered(plain, gzip.compress(plain, 5, mtime=0))


PATHS = ("/", OWN_PAGE, *(PREFIX + name for name in (*ENDPOINTS, DESCRIPTION)))
_LOCAL_NAMES = frozenset(("localhost", "127.0.0.1", "[::1]"))
# Makes a browser ask for a name and a password.
_CHALLENGE = {"WWW-Authenticate": 'Basic realm="freetrain", charset="UTF-8"'}


def page_server(host: str, port: int, live_page: LivePage, identities: Identities) -> ReadyTextServer:
    """A server of the page; port 0: any that is free.

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
    """Answers to requests, which were made already or are made in milliseconds: no request waits."""

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
        name = path.removeprefix(PREFIX)
        if name == DESCRIPTION:
            return packed(description())
        if path == "/":
            return self._live_page.now()
        if not user and (path == OWN_PAGE or self._live_page.needs_user(name)):
            raise UnknownUserError("Say who you are: the password is a token, which 'freetrain web token' makes.")
        return self._live_page.own_page(user) if path == OWN_PAGE else self._live_page.document(name, user)


def _headers(content_type: str) -> dict[str, str]:
    """HTTP headers of the page: nothing is loaded from anywhere, and nobody else shows or runs this page."""
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
