"""Pure: a report in the format of OpenCost's allocation API, for tools that read that.

Cores are what a user's jobs held, in the unit that the market sells. The cost of cores is what the
user paid in the market, at a price for a core-hour. What the market does not know is null, and what
it does not divide, such as disks, costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from walras_api.contract import ENTITLEMENT_LABEL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walras_cli.cluster.report.sums import Period, Prices, Report, Row

GIB = 2**30

_NOTHING = (
    "gpuCount",
    "gpuHours",
    "gpuCost",
    "networkCost",
    "loadBalancerCost",
    "pvBytes",
    "pvByteHours",
    "pvCost",
    "sharedCost",
    "externalCost",
    "cpuCostAdjustment",
    "ramCostAdjustment",
)


def opencost(report: Report, prices: Prices) -> dict[str, Any]:
    """Return a report by user and month: an allocation set for each month, by user."""
    return {
        "code": 200,
        "status": "success",
        "data": [_set(report.rows, period, prices) for period in report.periods],
    }


def _set(rows: Sequence[Row], period: Period, prices: Prices) -> dict[str, Any]:
    return {row.user: _allocation(row, period, prices) for row in rows if row.month == period.month}


def _allocation(row: Row, period: Period, prices: Prices) -> dict[str, Any]:
    hours = period.observed_seconds / 3600
    cpu_cost = _times(row.cores.paid, prices.core_hour)
    ram_cost = _times(row.memory.held, prices.gib_hour)
    window = {"start": period.start, "end": period.end}
    used = row.memory.used
    ram_bytes = None if row.memory.held is None else row.memory.held * GIB
    return {
        "name": row.user,
        "properties": {"labels": {ENTITLEMENT_LABEL: row.user}},
        "window": window,
        **window,
        "minutes": period.observed_seconds / 60,
        "cpuCores": _mean(row.cores.held, hours),
        "cpuCoreRequestAverage": _mean(row.cores.held, hours),
        "cpuCoreUsageAverage": _mean(row.cores.used, hours),
        "cpuCoreHours": row.cores.held,
        "cpuCost": cpu_cost,
        "cpuEfficiency": _part(row.cores.used, row.cores.held),
        "ramBytes": _mean(ram_bytes, hours),
        "ramByteRequestAverage": _mean(ram_bytes, hours),
        "ramByteUsageAverage": _mean(None if used is None else used * GIB, hours),
        "ramByteHours": ram_bytes,
        "ramCost": ram_cost,
        "ramEfficiency": _part(row.memory.used, row.memory.held),
        **dict.fromkeys(_NOTHING, 0),
        "totalCost": cpu_cost + ram_cost,
        "totalEfficiency": None,
    }


def _times(amount: float | None, price: float | None) -> float:
    return (amount or 0.0) * (price or 0.0)


def _part(amount: float | None, whole: float | None) -> float | None:
    return None if amount is None or not whole else amount / whole


def _mean(amount: float | None, hours: float) -> float | None:
    return None if amount is None or not hours else amount / hours
