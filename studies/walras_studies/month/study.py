"""Study beyond the papers: cores by the market and memory by credits together, for a month."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras.division.holdings import THOUSANDTH
from walras.mechanisms.amdahl import metrics
from walras.mechanisms.amdahl.market import AmdahlMarket
from walras.mechanisms.karma.ledger import UNIT
from walras_studies.chart import Chart
from walras_studies.cooper.rank_correlation import spearman
from walras_studies.month.policies import POLICIES, Hour, live_through
from walras_studies.month.world import CORES, MEMORY, STANDS_IN, MonthWorld, draw_world
from walras_studies.study import Claim, Finding, Progress, Study, mean, pick

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class MonthSize:
    """Size of the study.

    Attributes:
        users: Number of users of the cluster.
        nodes: Number of nodes of the cluster.
        hours: Length of the month in hours.
    """

    users: int
    nodes: int
    hours: int


@dataclass(frozen=True, slots=True)
class HourRow:
    """The cluster in one hour under one policy.

    Attributes:
        policy: Policy that divides cores and memory.
        hour: Hour of the month.
        progress: Share-weighted mean of the utilities of users with jobs.
        moved: Cores that jobs gained over the hour before, of jobs present in both hours.
        below: Part of the users with jobs whose speedup is below that of their entitlement, by
            more than the thousandth of a core in which nodes are told what jobs hold.
        memory_used: Part of all memory that jobs hold and can use.
    """

    policy: str
    hour: int
    progress: float
    moved: int
    below: float
    memory_used: float


@dataclass(frozen=True, slots=True)
class MonthUserRow:
    """A user's month under one policy.

    Attributes:
        policy: Policy that divides cores and memory.
        user: Number of the user.
        shares: Shares of the user.
        hours: Number of hours in which the user had jobs.
        utility: Mean utility over these hours.
        speedup: Mean speedup of its jobs over these hours, regardless of memory.
        memory_met: Part of its demand for memory that was met over the month.
        fixed_share_met: Part of its demand that its fixed share of all memory would have met.
        credits: Credits for memory at the end, relative to the mean of all users; 0 under policies
            without credits.
    """

    policy: str
    user: int
    shares: int
    hours: int
    utility: float
    speedup: float
    memory_met: float
    fixed_share_met: float
    credits: float


@dataclass(frozen=True, slots=True)
class MonthRows:
    """Tables of the study."""

    hours: tuple[HourRow, ...]
    users: tuple[MonthUserRow, ...]


def run(seed: int, size: MonthSize, progress: Progress) -> MonthRows:
    """Simulate the same month under every policy."""
    world = draw_world(size.users, size.nodes, size.hours, seed)
    entitled = [_entitled_speedups(world, hour) for hour in range(size.hours)]
    hours: list[HourRow] = []
    users: list[MonthUserRow] = []
    for number, policy in enumerate(POLICIES):
        lived = []
        for hour, found in enumerate(live_through(world, policy)):
            progress((number + hour / size.hours) / len(POLICIES), f"{policy}, hour {hour}")
            hours.append(_hour_row(world, policy, hour, found, entitled[hour]))
            lived.append(found)
        users += _user_rows(world, policy, lived)
    progress(1.0, "done")
    return MonthRows(tuple(hours), tuple(users))


def _entitled_speedups(world: MonthWorld, hour: int) -> Floats:
    """Return each user's mean speedup on its share of every node, shape (n,) (Amdahl paper, V-C).

    The share is the same whether or not others use theirs.
    """
    present = world.present(hour)
    market = AmdahlMarket(
        np.array(world.shares, np.float64),
        np.full(world.nodes, float(CORES)),
        np.array([life.user for life in present], np.int64),
        np.array([life.node for life in present], np.int64),
        np.array([life.fraction for life in present]),
    )
    return metrics.utilities_in_hardware(market, metrics.bare_entitlement(market))


def _hour_row(world: MonthWorld, policy: str, hour: int, found: Hour, entitled: Floats) -> HourRow:
    users = np.array(found.users)
    shares = np.array(world.shares)[users]
    below = np.array(found.speedup) < entitled[users] - THOUSANDTH
    return HourRow(
        policy,
        hour,
        float(shares @ np.array(found.utility) / shares.sum()),
        found.moved,
        float(below.mean()),
        sum(found.memory) / (world.nodes * MEMORY),
    )


def _user_rows(world: MonthWorld, policy: str, lived: list[Hour]) -> list[MonthUserRow]:
    count = len(world.shares)
    hours, utility, speed, memory, demand, fixed = np.zeros((6, count))
    share = np.array(world.shares) / sum(world.shares) * world.nodes * MEMORY
    for found in lived:
        users = np.array(found.users)
        hours[users] += 1
        utility[users] += found.utility
        speed[users] += found.speedup
        memory[users] += found.memory
        demand[users] += found.demand
        fixed[users] += np.minimum(share[users], found.demand)
    ledger = lived[-1].ledger
    held = dict.fromkeys(map(str, range(count)), 0.0)
    if ledger is not None:
        middle = float(np.mean(ledger.balances))
        for name, balance in zip(ledger.users, ledger.balances.tolist(), strict=True):
            held[name.removeprefix("user-")] = (balance - middle) / UNIT
    return [
        MonthUserRow(
            policy,
            user,
            world.shares[user],
            int(hours[user]),
            float(utility[user] / hours[user]),
            float(speed[user] / hours[user]),
            float(memory[user] / demand[user]),
            float(fixed[user] / demand[user]),
            held[str(user)],
        )
        for user in range(count)
        if hours[user]
    ]


def _named(rows: MonthRows, table: str, column: str, form: str) -> tuple[str, dict[str, float]]:
    found = {policy: mean(getattr(rows, table), column, policy=policy) for policy in POLICIES}
    return ", ".join(f"{policy} {value:{form}}" for policy, value in found.items()), found


def _progress(rows: MonthRows) -> Finding:
    told, found = _named(rows, "hours", "progress", ".2f")
    rivals = max(found[name] for name in ("reservations", "fair share", "max-min"))
    return Finding(told, found["Walras"] > rivals)


def _cost_of_credits(rows: MonthRows) -> Finding:
    ours, without = (
        mean(rows.hours, "progress", policy=policy) for policy in ("Walras", "market, max-min")
    )
    return Finding(
        f"{ours:.3f} against {without:.3f}, {ours / without - 1:+.1%}", ours > 0.95 * without
    )


def _even(rows: MonthRows) -> Finding:
    ratio = {}
    for policy in ("market, max-min", "Walras"):
        gains = [row.memory_met / row.fixed_share_met for row in pick(rows.users, policy=policy)]
        ratio[policy] = max(gains) / min(gains)
    return Finding(
        ", ".join(f"{policy} {value:.2f}" for policy, value in ratio.items()),
        ratio["Walras"] < ratio["market, max-min"],
    )


def _users_gain(rows: MonthRows) -> Finding:
    ours = {row.user: row.utility for row in pick(rows.users, policy="Walras")}
    told, least = [], 1.0
    for policy in ("reservations", "fair share", "max-min"):
        theirs = {row.user: row.utility for row in pick(rows.users, policy=policy)}
        part = float(np.mean([ours[user] >= theirs[user] for user in theirs]))
        told.append(f"{part:.0%} ({policy})")
        least = min(least, part)
    return Finding(", ".join(told), least > 0.5)


def _worst(rows: MonthRows) -> Finding:
    found = {
        policy: float(np.quantile([row.utility for row in pick(rows.users, policy=policy)], 0.05))
        for policy in POLICIES
    }
    holds = found["Walras"] >= max(found["reservations"], found["fair share"])
    return Finding(
        ", ".join(f"{policy} {value:.2f}" for policy, value in found.items()),
        holds,
        reason=""
        if holds
        else "credits limit users who always want far more memory to their share of it",
    )


def _violations(rows: MonthRows) -> Finding:
    told, found = _named(rows, "hours", "below", ".1%")
    none = found["Walras"] == 0
    return Finding(
        told,
        found["Walras"] <= min(found["reservations"], found["max-min"]),
        none,
        reason="" if none else "hysteresis keeps divisions that others would change a little",
    )


def _memory(rows: MonthRows) -> Finding:
    told, found = _named(rows, "hours", "memory_used", ".1%")
    return Finding(told, found["Walras"] > found["reservations"])


def _short(rows: MonthRows, policy: str) -> float:
    chosen = pick(rows.users, policy=policy)
    return float(np.mean([row.memory_met < row.fixed_share_met for row in chosen]))


def _memory_entitlements(rows: MonthRows) -> Finding:
    short = {policy: _short(rows, policy) for policy in POLICIES}
    return Finding(
        ", ".join(f"{policy} {value:.0%}" for policy, value in short.items()),
        short["Walras"] <= min(short["reservations"], short["max-min"]),
        short["Walras"] == 0,
        reason=""
        if short["Walras"] == 0
        else "a share of all memory is not the same as a share of the nodes with a user's jobs",
    )


def _moves(rows: MonthRows) -> Finding:
    told, found = _named(rows, "hours", "moved", ".0f")
    return Finding(f"cores an hour: {told}", found["Walras"] < 0.1 * _cores_of(rows))


def _cores_of(rows: MonthRows) -> float:
    users = len({row.user for row in rows.users})
    return CORES * users / 4


def _credits(rows: MonthRows) -> Finding:
    chosen = pick(rows.users, policy="Walras")
    held = [row.credits for row in chosen]
    use = [row.fixed_share_met for row in chosen]
    rank = spearman(held, use)
    return Finding(
        f"{min(held):.0f} to {max(held):.0f} around the mean; rank correlation {rank:.2f}",
        rank > 0.5,
    )


def _charts(rows: MonthRows) -> tuple[Chart, ...]:
    def sorted_utilities(policy: str) -> tuple[tuple[float, float], ...]:
        values = sorted(row.utility for row in pick(rows.users, policy=policy))
        return tuple((100 * place / len(values), value) for place, value in enumerate(values))

    week = 24 * 7
    return (
        Chart(
            "utilities",
            "Utility of users over the month",
            "percent of users",
            "mean utility",
            {policy: sorted_utilities(policy) for policy in POLICIES},
        ),
        Chart(
            "progress",
            "System progress in the first week",
            "hour",
            "progress",
            {
                policy: tuple(
                    (float(row.hour), row.progress)
                    for row in pick(rows.hours, policy=policy)
                    if row.hour < week
                )
                for policy in POLICIES
            },
        ),
        Chart(
            "credits",
            "Credits at the end, by user",
            "part of demand that a fixed share would meet",
            "credits above the mean",
            {
                "Walras": tuple(
                    sorted(
                        (r.fixed_share_met, r.credits) for r in pick(rows.users, policy="Walras")
                    )
                )
            },
            dots=True,
        ),
    )


STUDY = Study(
    title="A month of a cluster of 200 users",
    paper="",
    stands_in=STANDS_IN,
    run=run,
    full=MonthSize(200, 50, 720),
    quick=MonthSize(24, 6, 30),
    claims=(
        Claim(
            "",
            "system progress is higher than under reservations, fair share and max-min",
            "",
            _progress,
        ),
        Claim(
            "",
            "credits cost little progress, compared with max-min fair memory",
            "",
            _cost_of_credits,
        ),
        Claim(
            "",
            "credits even out what users gain over fixed shares of memory (largest / least gain)",
            "",
            _even,
        ),
        Claim(
            "",
            "most users have at least the utility that they have under reservations, fair share "
            "or max-min",
            "",
            _users_gain,
        ),
        Claim(
            "",
            "the worst-off twentieth of users have at least what they have under reservations and "
            "fair share",
            "",
            _worst,
        ),
        Claim(
            "", "no user's speedup is below that of its entitlement in any hour", "", _violations
        ),
        Claim("", "more memory is used than under reservations", "", _memory),
        Claim(
            "",
            "no user has less memory over the month than a fixed share of all would give",
            "",
            _memory_entitlements,
        ),
        Claim("", "less than a tenth of the cores change hands in an hour", "", _moves),
        Claim(
            "",
            "users who leave more of their share unused have more credits at the end",
            "",
            _credits,
        ),
    ),
    charts=_charts,
)
