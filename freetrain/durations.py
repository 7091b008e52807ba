"""Durations as Slurm's commands read and print them."""

from __future__ import annotations

import math
import re

_UNITS_S = {
    **dict.fromkeys(("s", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
    **dict.fromkeys(("week", "weeks"), 604800.0),
}
_FORMS = re.compile(
    r"(?:(?P<days>\d+)-(?P<day_hours>\d+)(?::(?P<day_minutes>\d+)(?::(?P<day_seconds>\d+))?)?"
    r"|(?:(?:(?P<hours>\d+):)?(?P<minutes>\d+):)(?P<seconds>\d+)"
    rf"|(?P<only>\d+(?:\.\d+)?)(?P<unit>{'|'.join(_UNITS_S)})?)"
)


def parse_duration(text: str, bare_unit_s: float = 1.0) -> float:
    """Seconds of ``D-HH[:MM[:SS]]``, ``[HH:]MM:SS``, ``90s``, ``15m``, ``2h``, ``2days`` or UNLIMITED (inf).

    Args:
        text: the duration.
        bare_unit_s: what a number without unit counts: Slurm's time limits are in minutes, its sacct in seconds.

    Raises:
        ValueError: it is none; the sentence says which forms there are.
    """
    text = text.strip()
    if text.upper() in ("UNLIMITED", "INFINITE"):
        return math.inf
    match = _FORMS.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a duration; write 90s, 15m, 2h, 10:00, 1:00:00, 1-12 or UNLIMITED")
    part = {name: float(value) for name, value in match.groupdict(default="0").items() if name != "unit"}
    if match["only"] is not None:
        return part["only"] * (_UNITS_S[match["unit"]] if match["unit"] else bare_unit_s)
    hours = part["days"] * 24 + part["day_hours"] + part["hours"]
    return hours * 3600 + (part["day_minutes"] + part["minutes"]) * 60 + part["day_seconds"] + part["seconds"]


def show_duration(seconds: float) -> str:
    """A duration as ``[D-]HH:MM:SS``, or UNLIMITED."""
    if math.isinf(seconds):
        return "UNLIMITED"
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    clock = f"{hour:02d}:{minute:02d}:{second:02d}"
    return f"{days}-{clock}" if days else clock
