"""Rows of the study of credits: small clusters with and without credits, and users who lie."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from walras.market.account import lending, tilts
from walras.market.admission import divide_by_shares
from walras.market.balances import Balance, brought_forward, whole_rates
from walras.market.snapshot import Entitlement, Policy
from walras.mechanisms.amdahl import metrics
from walras.mechanisms.amdahl.market import AmdahlMarket
from walras.mechanisms.karma.ledger import Ledger
from walras.mechanisms.karma.quantum import allocate
from walras_studies.amdahl.without_bounds import find_equilibrium
from walras_studies.karma.demands import FAIR_SHARE, draw_demands
from walras_studies.karma.paper_metrics import useful
from walras_studies.lying.runs import DEMAND_LIES, Lie
from walras_studies.month.policies import HOUR, clear_hours
from walras_studies.month.world import CORES, GIB, draw_world

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.random import Generator
    from numpy.typing import NDArray

    from walras_studies.month.world import MonthWorld

    Floats = NDArray[np.float64]
    Slices = NDArray[np.int64]
    Presence = NDArray[np.bool_]

HALF_LIFE_HOURS = 96
MOST = 0.2
"""Half-life of core credits in hours, and the largest part of its budget that they may cost a user
(beta)."""

AWAY_HOURS = 48.0
"""Mean number of hours for which a user has jobs; also the median among users of their mean number
of hours without jobs."""

SEARCH_HOURS = 6
"""Length in hours of the spells in which a user hides its jobs or shows them."""


def fading(hours: float) -> float:
    """Return the part of credits that is lost in an hour, for a half-life in hours."""
    return 1 - float(2.0 ** (-1 / hours))


def _with_core_credits(policy: Policy, most: float = MOST) -> Policy:
    return replace(policy, core_half_life=HALF_LIFE_HOURS * HOUR, most_credit=most, lending=True)


_WALRAS = Policy(memory="Karma", slice_bytes=GIB, hysteresis=0.02)
_MARKET = Policy(hysteresis=0.02)

MAX_MIN = "market, max-min memory"

BUSY: dict[str, Policy] = {
    "fair share": Policy("ProportionalSharing", memory="MaxMin", slice_bytes=GIB),
    MAX_MIN: replace(_WALRAS, memory="MaxMin"),
    "Walras": _WALRAS,
    "core credits": _with_core_credits(_WALRAS),
    "memory fades in 24 h": replace(_WALRAS, fading=fading(24)),
    "memory fades in 6 h": replace(_WALRAS, fading=fading(6)),
    "both": replace(_with_core_credits(_WALRAS), fading=fading(6)),
}
"""Policies for users who nearly always have jobs."""

AWAY: dict[str, Policy] = {
    "market": _MARKET,
    "core credits": _with_core_credits(_MARKET),
    "core credits up to half": _with_core_credits(_MARKET, 0.5),
}
"""Policies for users who come and go."""


@dataclass(frozen=True, slots=True)
class BusyRow:
    """A cluster of users who nearly always have jobs, under one policy.

    Attributes:
        number: Number of the drawn cluster.
        policy: Policy that divides cores and memory, of `BUSY`.
        progress: Share-weighted mean of users' utilities, averaged over the hours.
        worst: 5 % quantile of users' mean utilities.
        worst_ratio: 5 % quantile of users' mean utilities, relative to their own under fair share.
    """

    number: int
    policy: str
    progress: float
    worst: float
    worst_ratio: float


@dataclass(frozen=True, slots=True)
class AwayRow:
    """A cluster of users who come and go, under one policy.

    Attributes:
        number: Number of the drawn cluster.
        policy: Policy that divides cores, of `AWAY`.
        progress: Share-weighted mean of users' speedups, averaged over the hours with jobs.
        worst: 5 % quantile of the parts of their entitled core-hours that users hold.
        spread: Standard deviation of these parts among users.
    """

    number: int
    policy: str
    progress: float
    worst: float
    spread: float


@dataclass(frozen=True, slots=True)
class HidingRow:
    """Best hours for a user to hide its jobs that a search has found.

    Attributes:
        number: Number of the drawn market.
        user: Number of the user who hides its jobs.
        most: Largest part of its budget that core credits may cost a user.
        tried: Number of ways to hide that were tried.
        hidden: Number of hours in which its jobs are hidden.
        gain: Relative gain in utility over the whole time; 0 if hiding never gains.
        worst: Relative gain in utility of the worst way that was tried; 0 if none loses.
    """

    number: int
    user: int
    most: float
    tried: int
    hidden: int
    gain: float
    worst: float


def busy_rows(users: int, nodes: int, hours: int, number: int, seed: int) -> Iterator[BusyRow]:
    """Yield the outcome for users who nearly always have jobs, under each policy of `BUSY`."""
    world = draw_world(users, nodes, hours, seed * 1000 + number)
    shares = np.array(world.shares, np.float64)
    fair: Floats | None = None
    for policy, rules in BUSY.items():
        present, utility = np.zeros((2, users))
        progress = []
        for found in clear_hours(world, rules):
            here = np.array(found.users)
            present[here] += 1
            utility[here] += found.utility
            progress.append(shares[here] @ np.array(found.utility) / shares[here].sum())
        known = present > 0
        mean = utility[known] / present[known]
        fair = mean if fair is None else fair
        yield BusyRow(
            number,
            policy,
            float(np.mean(progress)),
            float(np.quantile(mean, 0.05)),
            float(np.quantile(mean / fair, 0.05)),
        )


def away_rows(users: int, nodes: int, hours: int, number: int, seed: int) -> Iterator[AwayRow]:
    """Yield the outcome for users who come and go, under each policy of `AWAY`."""
    world = draw_world(users, nodes, hours, seed * 1000 + number)
    world = only_while(world, draw_presence(users, hours, np.random.default_rng([seed, number])))
    shares = np.array(world.shares, np.float64)
    entitled = shares / shares.sum() * nodes * CORES
    for policy, rules in AWAY.items():
        held = np.zeros(users)
        progress = []
        for found in clear_hours(world, rules):
            here = np.array(found.users, np.int64)
            held[here] += found.cores
            if len(here):
                progress.append(shares[here] @ np.array(found.speedup) / shares[here].sum())
        part = (held / (entitled * hours))[held > 0]
        yield AwayRow(
            number,
            policy,
            float(np.mean(progress)),
            float(np.quantile(part, 0.05)),
            float(np.std(part)),
        )


def draw_presence(users: int, hours: int, random: Generator) -> Presence:
    """Draw whether each user has jobs in each hour, shape (users, hours).

    Some users are away for longer than others.
    """
    there = np.zeros((users, hours), np.bool_)
    for user in range(users):
        away = AWAY_HOURS * float(random.lognormal(0, 0.7))
        hour, present = 0, bool(random.random() < 0.5)
        while hour < hours:
            stay = 1 + int(random.exponential(AWAY_HOURS if present else away))
            there[user, hour : hour + stay] = present
            hour, present = hour + stay, not present
    return there


def only_while(world: MonthWorld, there: Presence) -> MonthWorld:
    """Return a world without the hours in which a job's user is away; the job goes on afterwards.

    Args:
        world: Users and jobs.
        there: Whether each user has jobs in each hour, shape (users, hours).
    """
    lives = []
    for life in world.lives:
        hours = np.flatnonzero(there[life.user, life.start : life.end]) + life.start
        for run in np.split(hours, np.flatnonzero(np.diff(hours) > 1) + 1):
            if run.size:
                first, end = int(run[0]), int(run[-1]) + 1
                demand = life.demand[first - life.start : end - life.start]
                name = f"{life.name}-{first}"
                lives.append(replace(life, name=name, start=first, end=end, demand=demand))
    return replace(world, lives=tuple(lives))


def hiding_rows(users: int, hours: int, number: int, seed: int) -> Iterator[HidingRow]:
    """Yield the gain of a user by the best spells for hiding its jobs that a search finds.

    The search first tries to hide all spells before some spell, and every other spell. From the
    best of these, it goes through all spells in order, and hides each or shows it again if that
    gains.
    """
    random = np.random.default_rng([seed, number, users])
    world = draw_world(users, max(2, users // 4), hours, seed * 1000 + number)
    world = only_while(world, draw_presence(users, hours, random))
    user = int(random.choice(sorted({life.user for life in world.lives})))
    for most in (MOST, 0.5):
        yield _search(world, user, number, most)


def _search(world: MonthWorld, user: int, number: int, most: float) -> HidingRow:
    spells = -(-world.hours // SEARCH_HOURS)
    shown = np.ones(spells, np.bool_)
    honest = _utility(world, user, shown, most)
    best, worst, tried = honest, honest, 0
    starts = [np.arange(spells) >= first for first in range(1, spells, 2)]
    alternating = [np.arange(spells) % 2 == odd for odd in (0, 1)]
    found = shown
    for candidate in (*starts, *alternating):
        has = _utility(world, user, candidate, most)
        tried += 1
        worst = min(worst, has)
        if has > best:
            best, found = has, candidate
    for spell in range(spells):
        candidate = found.copy()
        candidate[spell] = not candidate[spell]
        has = _utility(world, user, candidate, most)
        tried += 1
        worst = min(worst, has)
        if has > best:
            best, found = has, candidate
    hidden = int(np.repeat(~found, SEARCH_HOURS)[: world.hours].sum())
    return HidingRow(number, user, most, tried, hidden, best / honest - 1, worst / honest - 1)


def _utility(world: MonthWorld, user: int, shown: Presence, most: float) -> float:
    """Return a user's utility, summed over hours, if it hides its jobs in some spells.

    Args:
        world: Users and jobs.
        user: Number of the user.
        shown: Whether it shows its jobs in each spell, shape (spells,).
        most: Largest part of its budget that core credits may cost a user.
    """
    shares = np.array(world.shares, np.float64)
    entitled = shares / shares.sum() * world.nodes * CORES
    policy = _with_core_credits(_MARKET, most)
    entitlements = [Entitlement(str(each), share) for each, share in enumerate(world.shares)]
    account: dict[str, Balance] = {each.name: Balance() for each in entitlements}
    total = 0.0
    for hour in range(world.hours):
        lives = [
            life for life in world.present(hour) if life.user != user or shown[hour // SEARCH_HOURS]
        ]
        paid, bought = np.zeros((2, len(shares)))
        if lives:
            here = sorted({life.user for life in lives})
            budget = divide_by_shares(
                entitlements,
                map(str, here),
                tilts=tilts(account, entitlements, world.nodes * CORES, policy),
                most=most,
            )
            place = {each: row for row, each in enumerate(here)}
            market = AmdahlMarket(
                np.array(list(budget.values())) * world.nodes * CORES,
                np.full(world.nodes, float(CORES)),
                np.array([place[life.user] for life in lives]),
                np.array([life.node for life in lives]),
                np.array([life.fraction for life in lives]),
            )
            cores = find_equilibrium(market).cores
            bought[here] = market.sum_by_user(cores)
            paid[here] = market.budgets * (bought.sum() / market.budgets.sum())
            if user in place:
                total += float(metrics.user_progress(market, cores)[place[user]])
        rates = whole_rates(lending(entitled, paid, bought))
        lent = zip(account.items(), rates, strict=True)
        account = {name: each._replace(rate=rate) for (name, each), rate in lent}
        account = brought_forward(account, HOUR, policy.core_half_life)
    return total


def demand_lies(users: int, quanta: int, number: int, liars: int, seed: int) -> Iterator[Lie]:
    """Yield the gains of lies about demands under Karma with credits that fade.

    Args:
        users: Number of users.
        quanta: Number of quanta.
        number: Number of the population.
        liars: Number of users that lie, one at a time.
        seed: Seed of the study.
    """
    demands = draw_demands(users, quanta, np.random.default_rng([seed, users, number]))
    for hours in (24, 6):
        mechanism = f"Karma, fades in {hours} quanta"
        honest = useful(_fading_karma(demands, hours), demands)
        for liar in np.flatnonzero(honest)[:liars].tolist():
            for lie, tell in DEMAND_LIES.items():
                told = demands.copy()
                told[:, liar] = tell(demands[:, liar])
                has = useful(_fading_karma(told, hours), demands)[liar]
                gain = float(has / honest[liar] - 1)
                yield Lie("demand", mechanism, users, number, liar, lie, gain)


def _fading_karma(demands: Slices, half_life: float) -> Slices:
    """Return the slices of each user in each quantum, shape (quanta, users).

    Args:
        demands: Reported demands in slices, shape (quanta, users).
        half_life: Half-life of credits, in quanta.
    """
    ledger = Ledger.open(map(str, range(demands.shape[1])))
    rows = []
    for wanted in demands:
        found = allocate(
            ledger, wanted, len(wanted) * FAIR_SHARE, guaranteed_fraction=Fraction(1, 2)
        )
        rows.append(found.slices[0])
        ledger = found.ledger.faded(fading(half_life))
    return np.array(rows)


def spread(values: Sequence[float]) -> str:
    """Return the mean and the standard deviation of values as a text."""
    return f"{np.mean(values):.3f} ± {np.std(values):.3f}"
