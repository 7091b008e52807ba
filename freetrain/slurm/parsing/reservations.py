"""Reservations of scontrol. Pure."""

from __future__ import annotations

from freetrain.core.node import Reservation
from freetrain.slurm.parsing.node_lists import expand_nodes
from freetrain.slurm.parsing.words import fields_of, lines_of, text_or_nothing, time_of


def parse_reservations(text: str) -> tuple[list[Reservation], list[str]]:
    """Reservations of ``scontrol -o show reservation``, and the lines that were not understood."""
    reservations, rejected = [], []
    for line in lines_of(text, "ReservationName="):
        fields = fields_of(line, ("ReservationName", "StartTime", "EndTime", "Nodes", "Flags"))
        start_s, end_s = time_of(fields.get("StartTime", "")), time_of(fields.get("EndTime", ""))
        if start_s is None or end_s is None:
            rejected.append(f"reservation without times: {line[:80]!r}")
            continue
        flags = frozenset(filter(None, text_or_nothing(fields.get("Flags", "")).split(",")))
        try:
            nodes = expand_nodes(fields.get("Nodes", ""))
        except ValueError as error:
            rejected.append(f"reservation line not understood ({error}): {line[:80]!r}")
            continue
        reservations.append(Reservation(fields["ReservationName"], nodes, start_s, end_s, flags))
    return reservations, rejected
