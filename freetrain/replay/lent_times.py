"""When places on shared nodes were lent, and to whom."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LentTime:
    """A place that a trainer had.

    Attributes:
        place: its name, as of the end.
        trainer: who had it.
        from_s: since when, UTC epoch seconds.
        until_s: until when.
    """

    place: str
    trainer: str
    from_s: float
    until_s: float


@dataclass(slots=True)
class LentTimes:
    """All of them, in order of their ends.

    Attributes:
        all: those that are over.
    """

    all: list[LentTime] = field(default_factory=list)
    _open: dict[str, tuple[str, float]] = field(default_factory=dict)

    def note(self, place: str, trainer: str | None, now_s: float) -> None:
        """From now on a trainer has this place; None: nobody has."""
        before = self._open.pop(place, None)
        if before is not None and now_s > before[1]:
            self.all.append(LentTime(place, before[0], before[1], now_s))
        if trainer is not None:
            self._open[place] = (trainer, now_s)

    def finish(self, until_s: float) -> None:
        """The window ends."""
        for place in list(self._open):
            self.note(place, None, until_s)
