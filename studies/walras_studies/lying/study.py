"""Study beyond the papers: gains of users who lie, by mechanism and number of users."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from walras_studies.chart import Chart
from walras_studies.lying.runs import (
    DIVISIONS,
    MARKET,
    REQUEST_LIES,
    Lie,
    about_cores,
    about_demands,
    about_promises,
    about_requests,
    about_weights,
)
from walras_studies.study import Claim, Finding, Progress, Study, pick, steps

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class LyingSize:
    """Size of the study.

    Attributes:
        populations: Number of populations of each size.
        users: Numbers of users to vary.
        liars: Number of users of a population that lie, one at a time.
        quanta: Number of quanta of memory.
        days: Number of days of an auction with promises.
        auctioned: Numbers of users of such auctions to vary.
        promising: Number of their populations of each size, and of liars in each.
    """

    populations: int
    users: tuple[int, ...]
    liars: int
    quanta: int
    days: int
    auctioned: tuple[int, ...]
    promising: tuple[int, int]


PROMISES = {"minimum": "false minimum utilities", "deadline": "false deadlines"}
"""Lies about promises in auctions, by the subject."""

MANY = 20
"""Number of users from which a false promise should gain less than 1 %."""

NEGLIGIBLE = 1e-4
"""Relative gain that is too small to be worth a lie."""


@dataclass(frozen=True, slots=True)
class LyingRows:
    """Tables of the study."""

    lies: tuple[Lie, ...]

    @property
    def users(self) -> list[int]:
        """Numbers of users of the populations but those of promises, in ascending order."""
        return sorted({row.users for row in self.lies if row.about not in PROMISES})


def run(seed: int, size: LyingSize, progress: Progress) -> LyingRows:
    """Let some users of every population lie, one at a time."""
    lies: list[Lie] = []
    populations, liars = size.promising
    auctioned = list(product(size.auctioned, range(populations)))
    for users, number in steps(auctioned, progress, "users and population of auctions"):
        lies += about_promises(users, size.days, number, liars, [seed])
    cases = list(product(size.users, range(size.populations)))
    for users, number in steps(cases, progress, "users and population"):
        lies += about_cores(users, number, size.liars, [seed])
        lies += about_requests(users, number, size.liars, [seed])
        lies += about_weights(users, number, size.liars, [seed])
        lies += about_demands(users, size.quanta, number, size.liars, [seed])
    return LyingRows(tuple(lies))


def _best(rows: LyingRows, about: str, mechanism: str, users: int, lie: str = "") -> list[float]:
    """Return the relative gain of each liar by its best lie, or by one lie; 0 if it would lose."""
    gains: defaultdict[tuple[int, int], float] = defaultdict(float)
    for row in pick(rows.lies, about=about, mechanism=mechanism, users=users):
        if not lie or row.lie == lie:
            who = row.number, row.liar
            gains[who] = max(gains[who], row.gain)
    return list(gains.values())


def _ends(rows: LyingRows, about: str, mechanism: str, lie: str = "") -> tuple[float, float, float]:
    """Return the mean best gains among the fewest and the most users, and the largest of the most.

    The last one is the largest best gain of a liar among the most users.
    """
    few, many = rows.users[0], rows.users[-1]
    last = _best(rows, about, mechanism, many, lie)
    first = _best(rows, about, mechanism, few, lie)
    return float(np.mean(first)), float(np.mean(last)), max(last)


def _falls(ends: tuple[float, float, float], to: float = 1.0) -> bool:
    """Return whether gains become smaller with more users, or are negligible among the most.

    Args:
        ends: Gains, as `_ends` returns them.
        to: Part of the mean gain among the fewest users that the gain among the most must be below.
    """
    return ends[1] < to * ends[0] or ends[1] < NEGLIGIBLE


def _in_words(rows: LyingRows, ends: tuple[float, float, float]) -> str:
    few, many = rows.users[0], rows.users[-1]
    return (
        f"{ends[0]:.2%} among {few} users, {ends[1]:.3%} among {many}, at most {ends[2]:.2%} there"
    )


def _market(rows: LyingRows) -> Finding:
    ends = _ends(rows, "F", "Amdahl market")
    return Finding(
        _in_words(rows, ends),
        _falls(ends, to=0.25),
        ends[2] < 0.01,
        reason="" if ends[2] < 0.01 else "some user gains more than 1 % among the most users",
    )


def _pays(mechanism: str) -> Callable[[LyingRows], Finding]:
    def judge(rows: LyingRows) -> Finding:
        ends = _ends(rows, "F", mechanism)
        return Finding(_in_words(rows, ends), ends[1] > 0.01)

    return judge


def _nash(rows: LyingRows) -> Finding:
    ends = _ends(rows, "F", "best response")
    return Finding(_in_words(rows, ends), _falls(ends))


def _unasked(rows: LyingRows) -> Finding:
    ends = _ends(rows, "F", "proportional sharing")
    return Finding(_in_words(rows, ends), ends == (0.0, 0.0, 0.0))


def _requests(lie: str) -> Callable[[LyingRows], Finding]:
    def judge(rows: LyingRows) -> Finding:
        told = [
            f"{np.mean(_gains(rows, 'requests', lie, users)):+.2%} among {users} users"
            for users in (rows.users[0], rows.users[-1])
        ]
        most = max(max(_gains(rows, "requests", lie, users)) for users in rows.users)
        mean = float(np.mean(_gains(rows, "requests", lie, rows.users[-1])))
        return Finding(f"{', '.join(told)}; {most:+.1%} at most", mean < 0.01)

    return judge


def _others(rows: LyingRows) -> Finding:
    lost = {
        lie: min(min(_gains(rows, "others", lie, users)) for users in rows.users)
        for lie in REQUEST_LIES
    }
    return Finding(
        ", ".join(f"{lie}: {each:+.1%}" for lie, each in lost.items()),
        lost["its part of each node"] >= -0.01,
    )


def _gains(rows: LyingRows, about: str, lie: str, users: int) -> list[float]:
    found = pick(rows.lies, about=about, mechanism=MARKET, users=users)
    return [row.gain for row in found if row.lie == lie]


def _promises(about: str) -> Callable[[LyingRows], Finding]:
    def judge(rows: LyingRows) -> Finding:
        sizes = sorted({row.users for row in pick(rows.lies, about=about)})
        gains = {users: _best(rows, about, "auction", users) for users in sizes}
        most = max(max(each) for users, each in gains.items() if users >= MANY)
        told = (f"{users}: {np.mean(each):.2%} ({max(each):.2%})" for users, each in gains.items())
        return Finding(f"by users, mean (most): {', '.join(told)}", most < 0.01)

    return judge


def _weights(rows: LyingRows) -> Finding:
    ends = {name: _ends(rows, "weights", name) for name in ("auction", "price-anticipating")}
    return Finding(
        "; ".join(f"{name} {_in_words(rows, end)}" for name, end in ends.items()),
        all(map(_falls, ends.values())),
        all(end[2] < 0.01 for end in ends.values()),
        reason=""
        if all(end[2] < 0.01 for end in ends.values())
        else "some user gains more than 1 % among the most users",
    )


def _budgets(rows: LyingRows) -> Finding:
    gains = {
        mechanism: float(np.mean(_best(rows, "budget", mechanism, rows.users[-1], "budget x 2")))
        for mechanism in DIVISIONS
    }
    others = [gain for mechanism, gain in gains.items() if mechanism != "greedy"]
    return Finding(
        ", ".join(f"{mechanism} {gain:.0%}" for mechanism, gain in gains.items()),
        min(others) > 0.05 and gains["greedy"] == 0,
    )


def _demands(mechanism: str) -> Callable[[LyingRows], Finding]:
    def judge(rows: LyingRows) -> Finding:
        over = [
            row.gain
            for row in pick(rows.lies, about="demand", mechanism=mechanism)
            if row.lie != "half the demand"
        ]
        lost = float(np.mean(over))
        return Finding(
            f"the best of {len(over)} lies gains {max(0.0, *over):.2%}; mean loss {abs(lost):.1%}",
            max(over) <= 0,
            reason="" if max(over) <= 0 else "a lie pays if it happens to save credits",
        )

    return judge


def _less(rows: LyingRows) -> Finding:
    gains = {
        mechanism: [
            row.gain
            for row in pick(rows.lies, about="demand", mechanism=mechanism, lie="half the demand")
        ]
        for mechanism in ("Karma", "max-min", "strict")
    }
    best = max(max(each) for each in gains.values())
    return Finding(
        ", ".join(
            f"{mechanism} {np.mean(each):+.0%}, at best {max(each):+.1%}"
            for mechanism, each in gains.items()
        ),
        all(np.mean(each) < 0 for each in gains.values()),
        best <= 0,
        reason=""
        if best <= 0
        else "credits saved now are worth more later to a user who knows its future demands",
    )


def _charts(rows: LyingRows) -> tuple[Chart, ...]:
    def line(about: str, mechanism: str) -> tuple[tuple[float, float], ...]:
        return tuple(
            (float(users), 100 * float(np.mean(_best(rows, about, mechanism, users))))
            for users in rows.users
        )

    return (
        Chart(
            "fractions",
            "Mean gain of the best lie about F",
            "users",
            "gain, percent",
            {mechanism: line("F", mechanism) for mechanism in DIVISIONS},
            log_x=True,
            log_y=True,
        ),
        Chart(
            "demands",
            "Mean gain of the best lie about demands",
            "users",
            "gain, percent",
            {mechanism: line("demand", mechanism) for mechanism in ("Karma", "max-min", "strict")},
            log_x=True,
        ),
    )


STUDY = Study(
    title="What a user gains by lying",
    paper="",
    stands_in=(
        "Markets have eight servers, four jobs for each user and three cores for each job, with "
        "the fractions of `amdahl`. A liar multiplies or divides the odds f / (1 - f) of one or "
        "all of its jobs, or its weight of one of four resources, by 1.2 or 4; reports twice or "
        "half its budget or demand for memory; or states minimum utilities or deadlines of 1.2, 2 "
        "or 4 times what its jobs have, in auctions on ten days. All others are honest. The gain "
        "is the change of its true utility, relative to that under the truth or of its bare "
        "entitlement. The best lie of each liar counts, or 0; figures are means over liars, and "
        "the largest."
    ),
    run=run,
    full=LyingSize(20, (2, 4, 8, 16, 32, 64, 128, 256), 8, 400, 10, (2, 4, 8, 16, 20), (3, 4)),
    quick=LyingSize(2, (2, 64), 2, 100, 1, (2, 20), (1, 1)),
    claims=(
        Claim(
            "",
            "lies about F gain less in a larger Amdahl market, and below 1 % in the largest",
            "",
            _market,
        ),
        Claim("", "lies about F also gain less among more users who best respond", "", _nash),
        Claim("", "lies about F pay under greedy even among the most users", "", _pays("greedy")),
        Claim(
            "",
            "lies about F pay under the upper bound even among the most users",
            "",
            _pays("upper bound"),
        ),
        Claim("", "proportional sharing does not ask for F, so that no lie gains", "", _unasked),
        *(
            Claim(
                "",
                f"requests of {lie} that nobody needs gain their owner less than 1 % on average "
                "among the most users",
                "",
                _requests(lie),
            )
            for lie in REQUEST_LIES
        ),
        Claim(
            "",
            "requests within one's part of each node leave nobody else below 0.99 of what its "
            "share alone could give",
            "",
            _others,
        ),
        *(
            Claim(
                "",
                f"{told} in auctions gain less than 1 % where there are {MANY} users or more",
                "",
                _promises(about),
                of_spread=True,  # it has few populations, and is about the largest gain of all
            )
            for about, told in PROMISES.items()
        ),
        Claim(
            "",
            "lies about weights of resources gain less among more users, and below 1 % in the end",
            "",
            _weights,
        ),
        Claim(
            "",
            "reporting twice the budget pays wherever budgets count, so that users must not set "
            "them",
            "",
            _budgets,
        ),
        Claim(
            "",
            "reporting more than the true demand never pays under Karma",
            "",
            _demands("Karma"),
        ),
        Claim(
            "",
            "reporting more than the true demand never pays under max-min",
            "",
            _demands("max-min"),
        ),
        Claim("", "reporting less than the true demand does not pay", "", _less),
    ),
    charts=_charts,
)
