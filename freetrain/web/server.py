"""The page as it is sent: made after each look, once a second at most, and answered to all who ask."""

from __future__ import annotations

import base64
import gzip
import hashlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from freetrain.config import Config
from freetrain.daemon.reports.standing import Standing, find_standing
from freetrain.daemon.reports.status_file import STATUS_NAME
from freetrain.errors import InputError
from freetrain.showing.ready_text import HttpAnswer, HttpRequest, ReadyTextServer, is_loopback, sentence
from freetrain.store.store import DAEMONS_STORE
from freetrain.web import page
from freetrain.web.database import DaemonHistory, read_history
from freetrain.web.over_time import PAST_S
from freetrain.web.page import PageFacts, render

log = logging.getLogger(__name__)

_MIN_INTERVAL_S, _REST = 1.0, 9.0
"""It is not made more often than once in so many seconds, and takes a tenth of the time at most."""
_ASKED_S, _SOON_S, _SELDOM_S = 600.0, 10.0, 60.0
"""For so long after somebody asked it is made soon even if the daemon has not looked; else seldom."""
_TOO_OLD_S = 300.0
_PAST_FRESH_S = 30.0
_TICK_S = 0.25
_OTHERS_MAY_READ = 0o004
_LOCAL_NAMES = frozenset(("localhost", "127.0.0.1", "[::1]"))


@dataclass(frozen=True, slots=True)
class Rendered:
    """The page as it is sent.

    Attributes:
        html: whole, UTF-8.
        packed: the same, with gzip.
    """

    html: bytes
    packed: bytes


class PageTooOldError(Exception):
    """The page could not be made for a while; what there is would be misleading."""


class LivePage:
    """Makes the page again and again, in a thread of its own: nobody who asks for it waits until it is made.

    It is made after each look of the daemon's, or every ten seconds, and the database is read once for each look.
    While nobody has asked for ten minutes, it is made once a minute.

    Args:
        config: the daemon's.
        clock_s: running seconds.
    """

    def __init__(self, config: Config, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._config = config
        self._directory = Path(config.state.directory)
        self._clock_s = clock_s
        self._asked_s = clock_s()
        self._made_s, self._took_s, self._made_of = 0.0, 0.0, 0
        self._past = DaemonHistory()
        self._past_of: tuple[object, ...] = ()
        self._rendered = self._make()

    def now(self) -> Rendered:
        """The page; it says of when it is.

        Raises:
            PageTooOldError: it could not be made for a while.
        """
        self._asked_s = self._clock_s()
        if self._asked_s - self._made_s > _TOO_OLD_S:
            raise PageTooOldError
        return self._rendered

    def renew(self) -> None:
        """Make it again, if it is time to."""
        now_s = self._clock_s()
        waited_s = now_s - self._made_s
        if waited_s < max(_MIN_INTERVAL_S, _REST * self._took_s):
            return
        is_wanted = now_s - self._asked_s < _ASKED_S
        has_looked = is_wanted and self._published() != self._made_of
        if has_looked or waited_s >= (_SOON_S if is_wanted else _SELDOM_S):
            self._rendered = self._make()

    @contextmanager
    def kept_fresh(self) -> Iterator[None]:
        """Meanwhile it is made again and again; what goes wrong is logged, and tried again."""
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

    def _make(self) -> Rendered:
        began_s, of = self._clock_s(), self._published()
        rendered = _packed(render(self._facts()))
        self._made_s, self._made_of = self._clock_s(), of
        self._took_s = self._made_s - began_s
        return rendered

    def _published(self) -> int:
        """Differs whenever the daemon has published something."""
        try:
            return (self._directory / STATUS_NAME).stat().st_mtime_ns
        except OSError:
            return 0

    def _facts(self) -> PageFacts:
        standing = find_standing(self._config)
        past = self._past_at(standing)
        path = self._directory / STATUS_NAME
        try:
            may_read = bool(path.stat().st_mode & _OTHERS_MAY_READ)
        except FileNotFoundError:
            return PageFacts(standing, past)
        except OSError:
            return PageFacts(standing, past, is_hidden=True, is_private=True)
        return PageFacts(standing, past, is_hidden=standing.status is None, is_private=not may_read)

    def _past_at(self, standing: Standing) -> DaemonHistory:
        """What the database tells, read again after each look, and now and then without one."""
        look = standing.status.look if standing.status else None
        of = (look.time_s if look else None, int(standing.now_s / _PAST_FRESH_S))
        if of != self._past_of:
            trainers = [trainer.id for trainer in look.trainers] if look else []
            self._past = read_history(self._directory / DAEMONS_STORE, standing.now_s - PAST_S, trainers)
            self._past_of = of
        return self._past


def _packed(page: str) -> Rendered:
    html = page.encode()
    return Rendered(html, gzip.compress(html, 5, mtime=0))


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


def page_answers(live_page: LivePage, is_local: bool) -> Callable[[HttpRequest], HttpAnswer]:
    """The answer to each request.

    Args:
        live_page: what is served.
        is_local: whether it is for this machine alone.
    """
    headers = _headers()

    def answer(request: HttpRequest) -> HttpAnswer:
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
            return HttpAnswer(rendered.packed, {**headers, "Content-Encoding": "gzip"})
        return HttpAnswer(rendered.html, headers)

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
