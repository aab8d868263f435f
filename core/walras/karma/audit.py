"""Whether a ledger is what a log of quanta comes to: no credit minted, none lost.

Records are written before what they say is made durable, so that a log has a record of every
quantum that counts, and maybe some that do not: of an operator that died or was superseded between
the two, or of a quantum that was settled again since somebody asked for more while it lasted. The
next quantum tells which of them counted: it begins with the credits that one ended with.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from walras.karma.ledger import KarmaError, Ledger, in_credits
from walras.karma.record import ReplayedQuantum

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MOST_NAMED = 3
"""Users of whom a problem tells."""


class AuditReport(NamedTuple):
    """What an audit found.

    Attributes:
        first: number of the first quantum of the log; 0 if it has none.
        last: of the last.
        records: how many there are.
        problems: why the ledger does not follow from the log, a line each; none if it does.
    """

    first: int
    last: int
    records: int
    problems: tuple[str, ...]


def audit(records: Iterable[dict[str, Any]], ledger: Ledger) -> AuditReport:
    """Replay a log of quanta against a ledger.

    Args:
        records: as `walras.karma.record.record_of` makes them, those of one quantum in the order in
            which they were written; logs of several operators may follow each other.
        ledger: that is to follow from them; quanta after it are looked at as well.

    Raises:
        KarmaError: one of them is no record.
    """
    written: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        written[_number(record)].append(record)
    problems: list[str] = []
    former: list[ReplayedQuantum] = []
    latest: list[ReplayedQuantum] = []
    ends: list[ReplayedQuantum] = []
    last = min(written, default=1) - 1
    for number, again in sorted(written.items()):
        if number > last + 1:
            problems.append(_gap(last + 1, number - 1))
        former, latest = latest if number == last + 1 else [], []
        for record in again:
            problems += _take(record, former, latest)
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
    """Add a record to the latest ones; yield what is wrong with it."""
    number = _number(record)
    if "omitted" in record:
        yield (
            f"quantum {number}: has {record['omitted']} users and demands, too many to be recorded"
        )
        return
    replayed = ReplayedQuantum(record)
    yield from replayed.problems
    if former and not any(_follows(each, replayed) for each in (*former, *latest)):
        yield f"quantum {number}: does not begin with the credits that the one before ended with"
    latest.append(replayed)


def _follows(earlier: ReplayedQuantum, later: ReplayedQuantum) -> bool:
    """Whether one begins where another ended; where it began, if it is the same quantum."""
    again = earlier.number == later.number
    return _begins(later, earlier.before if again else earlier.after)


def _end(last: int, ends: Sequence[ReplayedQuantum], ledger: Ledger) -> Iterable[str]:
    """Say how a ledger differs from what its quantum ended with, and the next one began with.

    That one may have been written down by an operator that died before it settled it.
    """
    if last < ledger.quantum:
        yield _gap(last + 1, ledger.quantum)
    elif last and not ends:
        yield f"what quantum {ledger.quantum} ended with is not in the log"
    elif last and not any(each.after == ledger or _begins(each, ledger) for each in ends):
        yield (
            f"the ledger is not what quantum {ends[-1].number} ended with: "
            f"{_differences(ends[-1].after, ledger)}"
        )


def _begins(later: ReplayedQuantum, ledger: Ledger) -> bool:
    """Whether a quantum begins with a ledger, as it is then as long as it is not settled."""
    return ledger.shared_by(later.before.users) == later.before


def _gap(first: int, last: int) -> str:
    which = f"quantum {first} is" if first == last else f"quanta {first} to {last} are"
    return f"{which} not in the log"


def _differences(expected: Ledger, found: Ledger) -> str:
    """Say in which respects two ledgers differ, the first few users' credits by name."""
    if expected.quantum != found.quantum:
        return f"it is of quantum {found.quantum}"
    if expected.users != found.users:
        return "it has other users, or in another order"
    off = [
        f"{user} has {in_credits(int(now))} credits and not {in_credits(int(due))}"
        for user, due, now in zip(expected.users, expected.balances, found.balances, strict=True)
        if due != now
    ]
    return "; ".join(off[:MOST_NAMED]) or "it has another carry"
