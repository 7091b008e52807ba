"""The page as it is now: made anew once a second at most, however many look at it."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from freetrain.config import Config
from freetrain.daemon.standing import Standing, find_standing
from freetrain.daemon.status_file import STATUS_NAME
from freetrain.store.store import DAEMONS_STORE
from freetrain.web.database import Past, read_past
from freetrain.web.page import PageFacts, render
from freetrain.web.window import PAST_S

_FRESH_S, _REST = 1.0, 9.0
_PAST_FRESH_S = 30.0
_OTHERS_MAY_READ = 0o004


@dataclass(frozen=True, slots=True)
class Rendered:
    """The page as it is sent.

    Attributes:
        html: whole, UTF-8.
        packed: the same, with gzip.
    """

    html: bytes
    packed: bytes


class LivePage:
    """Makes the page when somebody asks for it. The database is read once for each look of the daemon's.

    Args:
        config: the daemon's.
        clock_s: running seconds.
    """

    def __init__(self, config: Config, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._config = config
        self._directory = Path(config.state.directory)
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._fresh_until_s = 0.0
        self._rendered: Rendered | None = None
        self._past = Past()
        self._past_of: tuple[object, ...] = ()

    def now(self) -> Rendered:
        """The page, a second old, or as old as it must be to take a tenth of the time. It says of when it is.

        Who asks while it is made waits for that.
        """
        with self._lock:
            began_s = self._clock_s()
            if self._rendered is None or began_s >= self._fresh_until_s:
                self._rendered = _packed(render(self._facts()))
                ended_s = self._clock_s()
                self._fresh_until_s = ended_s + max(_FRESH_S, _REST * (ended_s - began_s))
            return self._rendered

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

    def _past_at(self, standing: Standing) -> Past:
        """What the database tells, read anew after each look, and now and then without one."""
        look = standing.status.look if standing.status else None
        of = (look.time_s if look else None, int(standing.now_s / _PAST_FRESH_S))
        if of != self._past_of:
            trainers = [one.id for one in look.trainers] if look else []
            self._past = read_past(self._directory / DAEMONS_STORE, standing.now_s - PAST_S, trainers)
            self._past_of = of
        return self._past


def _packed(page: str) -> Rendered:
    html = page.encode()
    return Rendered(html, gzip.compress(html, 5, mtime=0))
