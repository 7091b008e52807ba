"""What is sent: the page, made after each look, once a second at most, and what users and programs ask for."""

from __future__ import annotations

import gzip
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from freetrain.config import Config
from freetrain.daemon.reports.standing import Standing, find_standing
from freetrain.daemon.reports.status_file import STATUS_NAME
from freetrain.daemon.trainers.needs import needs_of
from freetrain.store.store import DAEMONS_STORE
from freetrain.web.api import ENDPOINTS, as_json
from freetrain.web.database import DaemonHistory, read_history
from freetrain.web.over_time import PAST_S
from freetrain.web.own_page import render_own
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
OWN_PAGE = "/me"


@dataclass(frozen=True, slots=True)
class Rendered:
    """A text as it is sent.

    Attributes:
        plain: whole, UTF-8.
        packed: the same, with gzip.
    """

    plain: bytes
    packed: bytes


@dataclass(frozen=True, slots=True)
class _Made:
    """What was made at one time.

    Attributes:
        page: of the machine.
        facts: of which all is made.
        of_users: path and user → what was made of the facts when it was first asked for.
    """

    page: Rendered
    facts: PageFacts
    of_users: dict[tuple[str, str], Rendered] = field(default_factory=dict)


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
        self._needs = needs_of(config)
        self._made = self._make()

    def now(self) -> Rendered:
        """The page; it says of when it is.

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
        """Made once for each user until there are newer facts."""
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
        """Make it again, if it is time to."""
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

    def _make(self) -> _Made:
        began_s, of = self._clock_s(), self._published()
        facts = self._facts()
        made = _Made(packed(render(facts).encode()), facts)
        self._made_s, self._made_of = self._clock_s(), of
        self._took_s = self._made_s - began_s
        return made

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
            return PageFacts(standing, past, needs=self._needs)
        except OSError:
            return PageFacts(standing, past, is_hidden=True, is_private=True)
        return PageFacts(standing, past, standing.status is None, not may_read, self._needs)

    def _past_at(self, standing: Standing) -> DaemonHistory:
        """What the database tells, read again after each look, and now and then without one."""
        look = standing.status.look if standing.status else None
        of = (look.time_s if look else None, int(standing.now_s / _PAST_FRESH_S))
        if of != self._past_of:
            trainers = [trainer.id for trainer in look.trainers] if look else []
            self._past = read_history(self._directory / DAEMONS_STORE, standing.now_s - PAST_S, trainers)
            self._past_of = of
        return self._past


def packed(plain: bytes) -> Rendered:
    """A text, ready to be sent."""
    return Rendered(plain, gzip.compress(plain, 5, mtime=0))
