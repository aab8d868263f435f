"""Pure: read a sample for the market's history from the statuses that the operator knows.

All figures are those that users see in statuses, so history, `walras top` and metrics agree.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from walras.outcome.history import GIB, MarketSample, stored
from walras_operator.decide.conditions import listed, number_at
from walras_operator.decide.used_cores import cores_of_cpu, used_cores

if TYPE_CHECKING:
    from collections.abc import Iterable

    from walras.outcome.blocks import Table
    from walras_operator.decide.world import World

Status = dict[str, Any]


class PodUsage(NamedTuple):
    """Cores and memory that a pod, or all pods of a user, use.

    Attributes:
        cores: CPUs of a pod, as Kubernetes counts them; cores of a user, as the market sells them.
        memory: Bytes; None if unknown.
        beyond: Those of the cores beyond what each pod holds.
    """

    cores: float
    memory: float | None
    beyond: float = 0.0


Use = Mapping[tuple[str, str], PodUsage]
"""Use of pods, by namespace and name."""


def sample_of(world: World, time: int, use: Use | None = None) -> MarketSample:
    """Return the market as the statuses describe it. Malformed figures count as unknown.

    Args:
        world: Everything that the operator knows.
        time: Current time, in seconds since 1970.
        use: Use of pods by the metrics API; None without one.
    """
    used = used_by_users(world, use)
    return MarketSample(
        time, {"user": _users(world, used), "node": _nodes(world), "job": _jobs(world)}
    )


def used_by_users(world: World, use: Use | None) -> dict[str, PodUsage]:
    """Return what the pods of each user's jobs use, without users of whom not all is known.

    CPU time is that of the nodes' agents, or of the metrics API where these say nothing; memory is
    that of the metrics API.

    Args:
        world: Everything that the operator knows.
        use: Use of pods by the metrics API; None without one.
    """
    of_cpu, counted = cores_of_cpu(world), used_cores(world)
    by_user: defaultdict[str, list[PodUsage]] = defaultdict(list)
    unknown = set()
    for job in world.objects.jobs:
        status, user = job.status or {}, job.spec.entitlement
        if number_at(status, "counts", "unlisted"):
            unknown.add(user)
        for pod in listed(status, "pods"):
            name = job.metadata.namespace, str(pod.get("name"))
            mine = (use or {}).get(name)
            cores = counted.get(name)
            if cores is None and mine is not None:
                cores = mine.cores * of_cpu.get(str(pod.get("node")), 1.0)
            if cores is not None:
                held = number_at(pod, "held")
                beyond = 0.0 if held is None else max(cores - held, 0.0)
                memory = None if mine is None else mine.memory
                by_user[user].append(PodUsage(cores, memory, beyond))
    return {
        user: PodUsage(
            sum(each.cores for each in pods),
            _sum(each.memory for each in pods),
            sum(each.beyond for each in pods),
        )
        for user, pods in by_user.items()
        if user not in unknown
    }


def spent(status: Mapping[str, Any]) -> float | None:
    """Return what an entitlement pays for all its cores, in cores at the cluster's mean price."""
    spends = [number_at(each, "spend") for each in listed(status, "spendByNode")]
    stated = [each for each in [*spends, number_at(status, "otherSpend")] if each is not None]
    return sum(stated) if stated else None


def loans(status: Mapping[str, Any], direction: str) -> float | None:
    """Return the bytes that an entitlement lends or borrows; None if memory is not lent.

    Args:
        status: Status of the Entitlement.
        direction: Field of the status to sum: ``lent`` or ``borrowed``.
    """
    credit = status.get("credits")
    if not isinstance(credit, dict):
        return None
    return sum(number_at(each, "memory") or 0.0 for each in listed(credit, direction))


def _users(world: World, used: Mapping[str, PodUsage]) -> Table:
    rows = {}
    statuses = {each.metadata.name: each.status or {} for each in world.objects.entitlements}
    balances = [number_at(each, "credits", "balance") for each in statuses.values()]
    stated = [each for each in balances if each is not None]
    mean = sum(stated) / max(len(stated), 1)
    for name, status in statuses.items():
        if status.get("cores") or status.get("memory"):
            rows[name] = stored(_user(status, used.get(name), mean), "user")
    return rows


def _user(status: Status, used: PodUsage | None, mean_credits: float) -> tuple[float | None, ...]:
    entitled = number_at(status, "cores", "entitled")
    bought = number_at(status, "cores", "bought")
    trade = None if entitled is None or bought is None else bought - entitled
    paid, balance = spent(status), number_at(status, "credits", "balance")
    return (
        entitled,
        bought,
        number_at(status, "cores", "held"),
        None if used is None else used.cores,
        None if trade is None else max(-trade, 0.0),
        None if trade is None else max(trade, 0.0),
        None if balance is None else balance - mean_credits,
        paid / bought if bought and paid is not None else None,
        paid,
        _gib(number_at(status, "memory", "entitled")),
        _gib(number_at(status, "memory", "granted")),
        None if used is None else _gib(used.memory),
        _gib(loans(status, "lent")),
        _gib(loans(status, "borrowed")),
    )


def _nodes(world: World) -> Table:
    status = {} if world.market is None else world.market.status or {}
    prices = {str(each.get("node")): each for each in listed(status, "prices")}
    sold = {
        name: float(sum(grant.cores for grant in each.spec.grants))
        for name, each in world.allocations.items()
    }
    return {
        name: stored((number_at(prices.get(name), "price"), sold.get(name)), "node")
        for name in sorted(prices.keys() | sold.keys())
    }


def _jobs(world: World) -> Table:
    rows = {}
    for job in world.objects.jobs:
        status = job.status or {}
        if status.get("counts"):
            row = (_held(status), number_at(status, "bought"), number_at(status, "speedup"))
            rows[f"{job.metadata.namespace}/{job.metadata.name}"] = stored(row, "job")
    return rows


def _held(status: Status) -> float | None:
    """Return the cores of all pods, counting those that the status does not list like the rest."""
    pods = list(listed(status, "pods"))
    listed_cores = _sum(number_at(pod, "held") for pod in pods)
    if listed_cores is None or not number_at(status, "counts", "unlisted"):
        return listed_cores
    return listed_cores * (number_at(status, "counts", "total") or 0.0) / len(pods)


def _sum(values: Iterable[float | None]) -> float | None:
    stated = [each for each in values if each is not None]
    return sum(stated) if stated else None


def _gib(value: float | None) -> float | None:
    return None if value is None else value / GIB
