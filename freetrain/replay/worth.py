"""What the idle nodes are worth: GPU-hours, energy and money, where the site says what they cost."""

from __future__ import annotations

from dataclasses import dataclass

from freetrain.replay.outcome import Outcome
from freetrain.replay.prices import Prices
from freetrain.showing.words import amount, number

_KWH_PER_MWH = 1000.0


@dataclass(frozen=True, slots=True)
class Worth:
    """What a replay came to; None: the site did not say what is needed for it.

    Attributes:
        gpu_hours: GPU-hours that trained, losses subtracted.
        value: what they would have cost elsewhere.
        energy_kwh: electricity that the lent nodes took beyond what they take idle.
        energy_cost: its price.
    """

    gpu_hours: float | None
    value: float | None
    energy_kwh: float | None
    energy_cost: float | None


@dataclass(frozen=True, slots=True)
class WorthRow:
    """A line of the table: what, how much, and how it was reckoned."""

    name: str
    shown: str
    reckoned: str


def worth_of(outcome: Outcome, prices: Prices) -> Worth:
    """What a replay is worth at these prices."""
    gpus, watts = prices.gpus_per_node, prices.watts_per_node
    gpu_hours = outcome.useful_node_hours * gpus if gpus is not None else None
    kwh = outcome.lent_node_hours * (watts - prices.idle_watts_per_node) / 1000 if watts is not None else None
    return Worth(
        gpu_hours,
        gpu_hours * prices.per_gpu_hour if gpu_hours is not None and prices.per_gpu_hour is not None else None,
        kwh,
        kwh * prices.per_kwh if kwh is not None and prices.per_kwh is not None else None,
    )


def worth_rows(worth: Worth, prices: Prices) -> tuple[WorthRow, ...]:
    """The same in lines for the reader."""
    money = prices.currency
    rows = []
    if worth.gpu_hours is not None:
        rows.append(
            WorthRow(
                "GPU-hours trained",
                amount(worth.gpu_hours),
                f"node-hours trained × {number(prices.gpus_per_node or 0)} GPUs",
            )
        )
    if worth.value is not None:
        rows.append(
            WorthRow(
                "they would cost elsewhere",
                f"{money} {amount(worth.value)}",
                f"{money} {number(prices.per_gpu_hour or 0)} a GPU-hour",
            )
        )
    if worth.energy_kwh is not None:
        rows.append(
            WorthRow("electricity for it", _energy(worth.energy_kwh), f"node-hours lent × {_watts(prices)}")
        )
    if worth.energy_cost is not None:
        rows.append(
            WorthRow(
                "that electricity costs",
                f"{money} {amount(worth.energy_cost)}",
                f"{money} {number(prices.per_kwh or 0)} a kWh",
            )
        )
    if worth.value is not None and worth.energy_cost is not None:
        rows.append(
            WorthRow("what is left", f"{money} {amount(worth.value - worth.energy_cost)}", "the difference")
        )
    return tuple(rows)


def _energy(kwh: float) -> str:
    return f"{amount(kwh / _KWH_PER_MWH)} MWh" if kwh >= 10 * _KWH_PER_MWH else f"{amount(kwh)} kWh"


def _watts(prices: Prices) -> str:
    busy = number(prices.watts_per_node or 0)
    if not prices.idle_watts_per_node:
        return f"{busy} W, as if idle nodes took nothing"
    return f"({busy} − {number(prices.idle_watts_per_node)}) W, training less idle"
