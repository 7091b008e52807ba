"""What each day lent, as the ledger sums it up and keeps it for good."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from sqlalchemy import Engine, delete, select
from sqlalchemy.orm import Session

from freetrain.core.lent_time import LentTime
from freetrain.store.engine import for_writing
from freetrain.store.store_errors import explained, sensible
from freetrain.store.tables import KeptSinceRow, LentDayRow


@dataclass(frozen=True, slots=True)
class LentDay:
    """What the trainers of a user, account and kind were lent on one day.

    Attributes:
        day_s: when the day began, UTC epoch seconds.
        until_s: when it ended.
        owner: the user.
        account: to which it is charged.
        kind: training or tasks; empty: nobody knows.
        lent: what it came to.
    """

    day_s: float
    until_s: float
    owner: str
    account: str
    kind: str
    lent: LentTime


class LentDays:
    """The days that have been summed up. ``Ledger.days`` is it."""

    def __init__(self, engine: Engine, path: Path) -> None:
        self._engine = engine
        self._path = path

    def summed_until_s(self) -> float | None:
        """Until when days have been summed up; None: none has been."""
        with explained(self._path), sensible(self._path), Session(self._engine) as session:
            row = session.get(KeptSinceRow, LentDayRow.__tablename__)
            return None if row is None else row.time_s

    def save(self, day_s: float, until_s: float, sums: Iterable[LentDay]) -> None:
        """Keep what a day came to, in place of what was kept of it."""
        with explained(self._path), Session(for_writing(self._engine)) as session, session.begin():
            session.execute(delete(LentDayRow).where(LentDayRow.day_s == day_s))
            for one in sums:
                names = {"day_s": day_s, "until_s": until_s, "owner": one.owner, "account": one.account}
                session.add(LentDayRow(**names, kind=one.kind, **asdict(one.lent)))
            session.merge(KeptSinceRow(what=LentDayRow.__tablename__, time_s=until_s))

    def between(self, from_s: float, until_s: float) -> list[LentDay]:
        """The days that lie within this time, as far as they have been summed up."""
        query = select(LentDayRow).where(LentDayRow.day_s >= from_s, LentDayRow.until_s <= until_s)
        with explained(self._path), sensible(self._path), Session(self._engine) as session:
            return [
                LentDay(
                    row.day_s, row.until_s, row.owner, row.account, row.kind,
                    LentTime(row.lent_s, row.lost_to_starts_s, row.lost_to_ends_s, row.starts, row.evictions),
                )
                for row in session.scalars(query.order_by(LentDayRow.day_s))
            ]  # fmt: skip
