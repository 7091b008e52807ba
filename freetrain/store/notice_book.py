"""The notice book: news for people, until the site's command has been run for it.

News is noticed exactly once: a sentence and the conditions behind it are written in one transaction. It is
delivered at least once: where a daemon is killed while the command runs, the next one runs it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import delete, func, select, update

from freetrain.store.engine import Database
from freetrain.store.tables import NoticedRow, NoticeRow

MOST_TRIES = 3
"""Runs of a notice's command, at most: one in which the daemon is killed each time is not run for ever."""


@dataclass(frozen=True, slots=True)
class Notice:
    """A sentence without its end for a person, or, without an owner, for the site's admins.

    id 0: it is not in the book yet.
    """

    kind: str
    owner: str
    what: str
    id: int = 0


class NoticeBook:
    """Reads and writes notices; each method is one transaction. ``Store.notice_book`` makes it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def noticed(self) -> dict[str, str] | None:
        """The conditions at the last look of any daemon; None: none has looked yet."""
        with self._database.reading() as session:
            found = {row.about: row.state for row in session.scalars(select(NoticedRow))}
        return found or None

    def note(
        self, notices: Iterable[Notice], before: Mapping[str, str], now: Mapping[str, str], time_s: float
    ) -> list[Notice]:
        """Write down notices, and the conditions from which they follow; the notices with their numbers."""
        notices = list(notices)
        changed = {about: state for about, state in now.items() if before.get(about) != state}
        gone = before.keys() - now.keys()
        if not notices and not changed and not gone:
            return []
        with self._database.writing() as session:
            for about, state in changed.items():
                session.merge(NoticedRow(about=about, state=state))
            for about in gone:
                session.execute(delete(NoticedRow).where(NoticedRow.about == about))
            rows = [
                NoticeRow(time_s=time_s, kind=str(notice.kind), owner=notice.owner, what=notice.what, tries=0)
                for notice in notices
            ]
            session.add_all(rows)
            session.flush()
            return [_notice(row) for row in rows]

    def untold(self) -> list[Notice]:
        """Notices for which no command has been run to its end, oldest first."""
        query = select(NoticeRow).where(NoticeRow.told_s.is_(None), NoticeRow.tries < MOST_TRIES)
        with self._database.reading() as session:
            return [_notice(row) for row in session.scalars(query.order_by(NoticeRow.id))]

    def last_told(self, since_s: float) -> dict[tuple[str, str], float]:
        """(kind, owner) → time of the last notice that was delivered to them since then, UTC epoch seconds."""
        query = (
            select(NoticeRow.kind, NoticeRow.owner, func.max(NoticeRow.told_s))
            .where(NoticeRow.told_s >= since_s)
            .group_by(NoticeRow.kind, NoticeRow.owner)
        )
        with self._database.reading() as session:
            return {(kind, owner): float(at_s or 0.0) for kind, owner, at_s in session.execute(query)}

    def begin(self, ids: Sequence[int]) -> None:
        """Note that the command for these notices is about to be run."""
        self._set(ids, tries=NoticeRow.tries + 1)

    def mark_delivered(self, ids: Sequence[int], time_s: float) -> None:
        """Note that the command for these notices has ended, well or not."""
        self._set(ids, told_s=time_s)

    def _set(self, ids: Sequence[int], **values: object) -> None:
        with self._database.writing() as session:
            session.execute(update(NoticeRow).where(NoticeRow.id.in_(ids)).values(**values))

    def forget(self, before_s: float) -> None:
        """Drop notices that are older, delivered or not."""
        with self._database.writing() as session:
            session.execute(delete(NoticeRow).where(NoticeRow.time_s < before_s))


def _notice(row: NoticeRow) -> Notice:
    return Notice(row.kind, row.owner, row.what, row.id)
