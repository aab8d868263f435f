"""Audit of a ledger against a log of quanta: no credit is created, none is lost.

A record is written before its ledger is stored. So a log has a record of every quantum that took
effect, and possibly some that did not: of an operator that died or lost its leadership between the
two writes, or of a quantum that was settled again since demands rose while it lasted. The next
quantum shows which of them took effect: it begins with the credits that one ended with.
"""

from __future__ import annotations

import json
import zlib
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from walras.mechanisms.karma.ledger import KarmaError, Ledger, in_credits
from walras.mechanisms.karma.record import ReplayedQuantum

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MOST_NAMED = 3
"""Most users that a problem lists by name."""


class AuditReport(NamedTuple):
    """Result of an audit.

    Attributes:
        first: Number of the first quantum in the log; 0 if the log is empty.
        last: Number of the last quantum in the log; 0 if the log is empty.
        problems: Reasons why the ledger does not follow from the log, one line each; none if it
            does.
    """

    first: int
    last: int
    records: int
    problems: tuple[str, ...]


def audit(records: Iterable[dict[str, Any]], ledger: Ledger) -> AuditReport:
    """Replay a log of quanta against a ledger.

    Args:
        records: Records by `walras.mechanisms.karma.record.record_of`, those of one quantum in the
            order in which they were written; logs of several operators may follow each other.
        ledger: Ledger that must follow from the records; quanta after it are audited too.

    Raises:
        KarmaError: An entry is not a record.
    """
    # Packed: a log of days has tens of thousands of records, whose values would need gigabytes.
    written: defaultdict[int, list[bytes]] = defaultdict(list)
    for record in records:
        written[_number(record)].append(zlib.compress(json.dumps(record).encode(), 1))
    problems: list[str] = []
    former: list[ReplayedQuantum] = []
    latest: list[ReplayedQuantum] = []
    ends: list[ReplayedQuantum] = []
    last = min(written, default=1) - 1
    for number, again in sorted(written.items()):
        if number > last + 1:
            problems.append(_gap(last + 1, number - 1))
        former, latest = latest if number == last + 1 else [], []
        for packed in again:
            problems += _take(json.loads(zlib.decompress(packed)), former, latest)
        if number in {ledger.quantum, ledger.quantum + 1}:
            ends += latest
        last = number
    problems += _end(last, ends, ledger)
    return AuditReport(
        min(written, default=0), last, sum(map(len, written.values())), tuple(problems)
    )


def _number(record: dict[str, Any]) -> int:
    number = record.get("quantum")
    if type(number) is not int or number < 1:
        raise KarmaError(f"this is no record of a quantum: its number is {number!r}")
    return number


def _take(
    record: dict[str, Any], former: Sequence[ReplayedQuantum], latest: list[ReplayedQuantum]
) -> Iterable[str]:
    """Add a record to the latest ones; yield its problems."""
    number = _number(record)
    if "omitted" in record:
        yield (f"quantum {number}: has {record['omitted']} users and demands, too many to record")
        return
    replayed = ReplayedQuantum(record)
    yield from replayed.problems
    if former and not any(_follows(each, replayed) for each in (*former, *latest)):
        yield f"quantum {number}: does not begin with the credits that the one before ended with"
    latest.append(replayed)


def _follows(earlier: ReplayedQuantum, later: ReplayedQuantum) -> bool:
    """Return whether a quantum begins where another ended, or where it began if it is the same."""
    again = earlier.number == later.number
    return _begins(later, earlier.before if again else earlier.after)


def _end(last: int, ends: Sequence[ReplayedQuantum], ledger: Ledger) -> Iterable[str]:
    """Yield how a ledger differs from the end of its quantum and the beginning of the next.

    The next quantum may be that of an operator that died before it settled it.
    """
    if last < ledger.quantum:
        yield _gap(last + 1, ledger.quantum)
    elif last and not ends:
        yield f"the end of quantum {ledger.quantum} is not in the log"
    elif last and not any(each.after == ledger or _begins(each, ledger) for each in ends):
        yield (
            f"the ledger differs from the end of quantum {ends[-1].number}: "
            f"{_differences(ends[-1].after, ledger)}"
        )


def _begins(later: ReplayedQuantum, ledger: Ledger) -> bool:
    """Return whether a quantum begins with the balances of a ledger, or with these centred.

    Where users have come or gone, their relatives take over what they are above or below the mean,
    which the record does not know: then the mean is compared, and what is left over.
    """
    before = later.before
    if set(before.users) == set(ledger.users):
        shared = ledger.shared_by(before.users)
        return before in (shared, shared.centred())
    same = (before.quantum, before.carry) == (ledger.quantum, ledger.carry)
    moved = ledger.centred() != ledger or not ledger.users
    return same and (moved or abs(before.mean() - ledger.mean()) <= 1)


def _gap(first: int, last: int) -> str:
    which = f"quantum {first} is" if first == last else f"quanta {first} to {last} are"
    return f"{which} not in the log"


def _differences(expected: Ledger, kept: Ledger) -> str:
    """Return how two ledgers differ, with the credits of the first few users that do."""
    if expected.quantum != kept.quantum:
        return f"it is of quantum {kept.quantum}"
    if expected.users != kept.users:
        return "its users are others, or in another order"
    off = [
        f"{user} has {in_credits(int(now))} credits instead of {in_credits(int(due))}"
        for user, due, now in zip(expected.users, expected.balances, kept.balances, strict=True)
        if due != now
    ]
    return "; ".join(off[:MOST_NAMED]) or "its carry is another"
