"""Worth of the idle nodes: GPU-hours, energy and money, where the site says what they cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from freetrain.config import Prices
from freetrain.showing.words import FigureLine, amount, number

_KWH_PER_MWH = 1000.0


@dataclass(frozen=True, slots=True)
class Worth:
    """Worth of lent nodes; None: the site did not say what is needed for it.

    Attributes:
        gpu_hours: GPU-hours that trained, losses subtracted.
        value: money that they would have cost elsewhere.
        energy_kwh: electricity that the lent nodes took beyond what they take idle.
    """

    gpu_hours: float | None
    value: float | None
    energy_kwh: float | None
    energy_cost: float | None


def worth_of(
    lent_node_hours: float, useful_node_hours: float, prices: Prices, lent_watts: float | None = None
) -> Worth:
    """Worth of lent nodes at these prices: hours that trained count, hours that were lent cost.

    ``lent_watts``: what a lent node took on average beyond idle; None: watts_per_node, of whatever kind it was.
    """
    gpu_hours = _times(useful_node_hours, prices.gpus_per_node)
    if lent_watts is None and prices.watts_per_node:
        lent_watts = prices.watts_per_node - prices.idle_watts_per_node
    kwh = None if lent_watts is None else lent_node_hours * lent_watts / 1000
    return Worth(gpu_hours, _times(gpu_hours, prices.per_gpu_hour), kwh, _times(kwh, prices.per_kwh))


def worth_rows(worth: Worth, prices: Prices) -> tuple[FigureLine, ...]:
    """Lines of the known figures of the worth, with how each was reckoned."""

    def money(value: float) -> str:
        return f"{prices.currency} {amount(value)}"

    gpus, currency = f"{number(prices.gpus_per_node)} GPUs", prices.currency
    left = None if worth.value is None or worth.energy_cost is None else worth.value - worth.energy_cost
    rows: tuple[tuple[str, float | None, Callable[[float], str], str], ...] = (
        ("GPU-hours trained", worth.gpu_hours, amount, f"node-hours trained × {gpus}"),
        ("they would cost elsewhere", worth.value, money, f"{currency} {number(prices.per_gpu_hour)} a GPU-hour"),
        ("electricity for it", worth.energy_kwh, _energy, f"node-hours lent × {_watts(prices)}"),
        ("that electricity costs", worth.energy_cost, money, f"{currency} {number(prices.per_kwh)} a kWh"),
        ("what is left", left, money, "the difference"),
    )
    return tuple(FigureLine(name, show(value), how) for name, value, show, how in rows if value is not None)


def _times(what: float | None, each: float) -> float | None:
    return what * each if what is not None and each else None


def _energy(kwh: float) -> str:
    return f"{amount(kwh / _KWH_PER_MWH)} MWh" if kwh >= 10 * _KWH_PER_MWH else f"{amount(kwh)} kWh"


def _watts(prices: Prices) -> str:
    if prices.watts_of:
        return "watts of their kinds, training less idle"
    busy = number(prices.watts_per_node)
    if not prices.idle_watts_per_node:
        return f"{busy} W, as if idle nodes took nothing"
    return f"({busy} − {number(prices.idle_watts_per_node)}) W, training less idle"
