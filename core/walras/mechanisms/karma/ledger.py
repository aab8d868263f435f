"""Ledger of credits: a value that can be stored and restored, and that users join and leave.

A credit buys one slice for one quantum at equal weights. Balances are whole numbers of
micro-credits, so that sums are exact and the same history gives the same balances to the bit.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from reprlib import repr as shorten
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from walras.numerics.arrays import Integers

UNIT = 1_000_000
"""Micro-credits in one credit."""

INITIAL_CREDITS = 10**12
"""Credits that users start with, so many that none runs out soon (section 3.4). At equal shares, a
user that borrows a million slices more than it earns in every quantum of ten seconds runs out after
four months; a user with a smaller share earlier. `Ledger.centred` moves balances before that."""

LARGEST_BALANCE = 9 * 10**18
"""Bound on balances in micro-credits (9e12 credits), which 64 bits nearly hold."""

HIGH_BALANCE = 2**60
"""Balance in micro-credits from which on `Ledger.centred` lowers all."""

LOW_BALANCE = INITIAL_CREDITS * UNIT // 8
"""Balance in micro-credits below which `Ledger.centred` raises all."""

LARGEST_DIFFERENCE = 10**12 * UNIT
"""Difference from the largest balance, in micro-credits, beyond which debts are forgiven. It leaves
room between `LOW_BALANCE` and `HIGH_BALANCE`, so that balances are not moved in every quantum."""

VERSION = 1

_DECIMAL = re.compile(r"([0-9]{1,12}|[1-8][0-9]{12})(?:\.([0-9]{1,6}))?")


class KarmaError(ValueError):
    """Invalid numbers or names; the message names the first bad entry."""


@dataclass(frozen=True, eq=False)
class Ledger:
    """Balances of all users after a number of quanta.

    Equal balances rank in the order of users, so that the user that joined first comes first.

    Attributes:
        users: Unique names, in the order of joining.
        balances: Balance of each user in micro-credits, not negative, read-only, shape (n,).
        carry: Micro-credits of income that could not be divided equally so far; the next quantum
            divides them too, so that none is lost.
        quantum: Number of quanta that have been settled; an allocation adds one.

    Raises:
        KarmaError: A balance, the carry or the quantum is out of range.
    """

    users: tuple[str, ...]
    balances: Integers
    carry: int = 0
    quantum: int = 0

    def __post_init__(self) -> None:
        balances = np.array(self.balances)
        if balances.shape != (len(self.users),) or balances.dtype != np.int64:
            raise KarmaError(
                f"balances is {balances.dtype} of shape {balances.shape}: "
                f"one int64 for each of {len(self.users)} users is needed"
            )
        if balances.size and not 0 <= balances.min() <= balances.max() < LARGEST_BALANCE:
            who = int(((balances < 0) | (balances >= LARGEST_BALANCE)).argmax())
            raise KarmaError(
                f"user {self.users[who]!r}: {in_credits(int(balances[who]))} credits are outside "
                f"0..{LARGEST_BALANCE // UNIT}"
            )
        for name in ("carry", "quantum"):
            if not 0 <= getattr(self, name) < LARGEST_BALANCE:
                raise KarmaError(f"{name} = {getattr(self, name)} is outside 0..9e18 - 1")
        balances.flags.writeable = False
        object.__setattr__(self, "balances", balances)

    @classmethod
    def open(cls, users: Iterable[str], initial: int | Fraction = INITIAL_CREDITS) -> Ledger:
        """Return the ledger of ``users`` that all start with ``initial`` credits."""
        names = tuple(users)
        _check_unique(names)
        return cls(names, np.full(len(names), _micro(initial)))

    def index(self, user: str) -> int:
        """Return the index of ``user`` in every array of users.

        Raises:
            KarmaError: The ledger has no such user.
        """
        if user not in self._numbers:
            raise KarmaError(f"user {user!r} is not in the ledger: join() comes first")
        return self._numbers[user]

    def credits(self, user: str) -> Fraction:
        """Return the balance of ``user`` in credits, exactly.

        Raises:
            KarmaError: The ledger has no such user.
        """
        return Fraction(int(self.balances[self.index(user)]), UNIT)

    def total(self) -> int:
        """Return the sum of all micro-credits, the carry included, as an unbounded integer."""
        return self._sum() + self.carry

    def join(self, *users: str, if_empty: int | Fraction = INITIAL_CREDITS) -> Ledger:
        """Return a ledger that ``users`` have joined, each with the mean balance (section 3.4).

        The mean is rounded down to a micro-credit. No other balance changes. Users that join an
        empty ledger start with ``if_empty`` credits.
        """
        _check_unique((*self.users, *users))
        start = self.mean() if self.users else _micro(if_empty)
        balances = np.concatenate([self.balances, np.full(len(users), start)])
        return replace(self, users=self.users + users, balances=balances)

    def leave(self, *users: str) -> Ledger:
        """Return a ledger without ``users`` and their credits; all other balances stay.

        The next quantum divides their fair share among the users that remain.
        """
        gone = {self.index(user) for user in users}
        kept = [number for number in range(len(self.users)) if number not in gone]
        names = tuple(self.users[number] for number in kept)
        return replace(self, users=names, balances=self.balances[np.array(kept, np.int64)])

    def part_of(self, users: Iterable[str]) -> Ledger:
        """Return a ledger of those of these users that are in it; all others leave it."""
        there = set(users)
        return self.leave(*(user for user in self.users if user not in there))

    def joined_by(self, users: Iterable[str]) -> Ledger:
        """Return a ledger that those of these users have joined that are not in it yet."""
        return self.join(*(user for user in users if user not in self._numbers))

    def shared_by(self, users: Sequence[str]) -> Ledger:
        """Return a ledger of exactly these users: others leave it, and new ones join it."""
        return self.part_of(users).joined_by(users)

    def indices(self, users: Iterable[str]) -> Integers:
        """Return the index of each of these users in every array of users.

        Raises:
            KarmaError: The ledger lacks one of them.
        """
        names = tuple(users)
        if names == self.users:
            return np.arange(len(names))
        return np.array([self.index(user) for user in names], np.int64)

    def check_room(self, income: int) -> None:
        """Check that no balance can grow out of range in a quantum.

        Args:
            income: Micro-credits that all users earn together.

        Raises:
            KarmaError: A balance with its part of the income and the carry is out of range.
        """
        if not self.users:
            return
        each = (self.carry + income) // len(self.users)
        richest = int(self.balances.argmax())
        if (most := int(self.balances[richest])) + each >= LARGEST_BALANCE:
            raise KarmaError(
                f"user {self.users[richest]!r}: {in_credits(most)} credits and {in_credits(each)} "
                f"earned in a quantum are outside 0..{LARGEST_BALANCE // UNIT}; "
                "centred() makes room"
            )

    def mean(self) -> int:
        """Return the mean balance in micro-credits, rounded down; 0 without users."""
        return self._sum() // len(self.users) if self.users else 0

    def at(self, micro: Mapping[str, int]) -> Ledger:
        """Return a ledger with other balances, in micro-credits, none below 0."""
        balances = [min(max(micro[user], 0), LARGEST_BALANCE - 1) for user in self.users]
        return replace(self, balances=np.array(balances, np.int64))

    def centred(self) -> Ledger:
        """Return a ledger with room for more and for fewer credits: all balances moved alike.

        Only differences between balances decide the order of users: as long as no user runs out,
        all later allocations are the same.
        While memory is idle, all users earn credits, and users with few shares may spend more than
        that. Once the largest balance has reached `HIGH_BALANCE`, or the smallest is below
        `LOW_BALANCE`, the largest is moved to `INITIAL_CREDITS`, or so far above it that the
        smallest is `LOW_BALANCE`, and all others with it. Differences stay, unless balances are
        further apart than `LARGEST_DIFFERENCE`: what a user owes beyond that is forgiven before.
        A ledger that has been centred stays the same if it is centred again.
        """
        if not self.users:
            return self
        richest = int(self.balances.max())
        balances = np.maximum(self.balances, richest - LARGEST_DIFFERENCE)
        poorest = int(balances.min())
        if richest >= HIGH_BALANCE or poorest < LOW_BALANCE:
            balances += max(INITIAL_CREDITS * UNIT, LOW_BALANCE + richest - poorest) - richest
        return self if np.array_equal(balances, self.balances) else replace(self, balances=balances)

    def faded(self, part: float) -> Ledger:
        """Return a ledger in which ``part`` of each difference from the mean balance is gone.

        Credits go from balances above the mean to those below it, in whole micro-credits. What is
        left over goes to the carry, so that none is lost or created.

        Args:
            part: Part of each difference, from 0 to 1.

        Raises:
            KarmaError: The part is outside of 0..1.
        """
        if not 0 <= part <= 1:
            raise KarmaError(f"part = {part}: a number in 0..1 is needed")
        if part == 0 or not self.users:
            return self
        away = self.balances - self._sum() // len(self.users)
        # Above the mean, rounded up; below it, rounded down: no less is taken than is given.
        above, below = np.maximum(away, 0), np.maximum(-away, 0)
        taken = np.minimum(np.ceil(above * part).astype(np.int64), above)
        given = np.minimum(np.floor(below * part).astype(np.int64), below)
        left = int(taken.sum()) - int(given.sum())
        if left < 0:  # products of large numbers are rounded, too
            given[given.argmax()] += left
            left = 0
        return replace(self, balances=self.balances - taken + given, carry=self.carry + left)

    def to_document(self) -> dict[str, Any]:
        """Return plain data (what JSON or YAML can hold) that restores this ledger exactly.

        Credits are decimal strings, since a reader that takes numbers for floats would round them;
        users are a list, since a writer that sorts keys would change who comes first in a tie.
        """
        return {
            "version": VERSION,
            "quantum": self.quantum,
            "carry": in_credits(self.carry),
            "balances": [
                {"user": user, "credits": in_credits(int(balance))}
                for user, balance in zip(self.users, self.balances, strict=True)
            ],
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Ledger:
        """Return the ledger that a document of `to_document` describes.

        Raises:
            KarmaError: The document is of another version, or is not a ledger.
        """
        version = document.get("version") if isinstance(document, dict) else None
        if version != VERSION:
            raise KarmaError(f"ledger of version {version!r}: this program reads {VERSION}")
        _check_fields("ledger", document, {"version", "quantum", "carry", "balances"})
        if type(document["quantum"]) is not int or not isinstance(document["balances"], list):
            raise KarmaError("ledger: quantum must be a whole number and balances a list")
        names, micro = [], []
        for number, entry in enumerate(document["balances"]):
            _check_fields(f"balances[{number}]", entry, {"user", "credits"})
            if not isinstance(entry["user"], str):
                raise KarmaError(f"balances[{number}]: user = {entry['user']!r} is not a string")
            names.append(entry["user"])
            micro.append(_from_decimal(f"credits of {entry['user']!r}", entry["credits"]))
        _check_unique(tuple(names))
        carry = _from_decimal("carry", document["carry"])
        return cls(tuple(names), np.array(micro, np.int64), carry, document["quantum"])

    def __eq__(self, other: object) -> bool:
        """Return whether names, order, balances, carry and quantum are all the same."""
        if not isinstance(other, Ledger):
            return NotImplemented
        mine, theirs = ((each.users, each.carry, each.quantum) for each in (self, other))
        return mine == theirs and np.array_equal(self.balances, other.balances)

    def __hash__(self) -> int:
        return hash((self.users, self.carry, self.quantum, self.balances.tobytes()))

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {user: number for number, user in enumerate(self.users)}

    def _sum(self) -> int:
        # In two halves: the sum of many large balances does not fit into 64 bits.
        high, low = self.balances >> 32, self.balances & 0xFFFFFFFF
        return (int(high.sum()) << 32) + int(low.sum())


def _check_unique(users: tuple[str, ...]) -> None:
    if len(set(users)) < len(users):
        (user, _), *_ = Counter(users).most_common(1)
        raise KarmaError(f"user {user!r} would be in the ledger twice")


def _check_fields(where: str, document: object, fields: set[str]) -> None:
    if not isinstance(document, dict) or set(document) != fields:
        raise KarmaError(f"{where}: exactly the fields {', '.join(sorted(fields))} are needed")


def _micro(amount: int | Fraction) -> int:
    micro = Fraction(amount) * UNIT
    if micro.denominator != 1 or abs(micro) >= LARGEST_BALANCE:
        raise KarmaError(
            f"{amount} credits: a whole number of millionths below "
            f"{LARGEST_BALANCE // UNIT} is needed"
        )
    return int(micro)


def in_credits(micro: int) -> str:
    """Return micro-credits as an exact decimal number of credits: 2500000 as '2.5'."""
    whole, part = divmod(abs(micro), UNIT)
    sign = "-" if micro < 0 else ""
    return f"{sign}{whole}.{part:06d}".rstrip("0").rstrip(".")


def _from_decimal(what: str, text: object) -> int:
    match = _DECIMAL.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise KarmaError(
            f"{what} = {shorten(text)}: a string such as '6.5' is needed, of at most 6 places"
        )
    whole, part = match.groups(default="")
    return int(whole) * UNIT + int(part.ljust(6, "0"))
