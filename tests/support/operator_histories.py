"""Judge what two operators have stored, by the versions alone: no code of Walras is asked."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from held_api import Stored


def violations(history: Sequence[Stored], terms: Sequence[str]) -> list[str]:
    """Return what is wrong with a history.

    Args:
        history: All versions of all objects, in the order in which they were stored.
        terms: Clients in the order in which they led, each once.
    """
    return [*_backwards(history, terms), *_unbalanced(history), *_shrinking(history)]


def _backwards(history: Iterable[Stored], terms: Sequence[str]) -> Iterator[str]:
    """Yield writes of a leader over one of its successor, and epochs that go back."""
    last: dict[str, int] = {}
    epochs: dict[str, int] = {}
    for path, document, writer in history:
        if document is None or writer not in terms or "/configmaps/" in path:
            continue
        if terms.index(writer) < last.get(path, 0):
            yield f"{path}: {writer} writes over its successor"
        last[path] = max(last.get(path, 0), terms.index(writer))
        epoch = (document.get("status") or {}).get("epoch") or document.get("spec", {}).get("epoch")
        number = epoch["number"] if isinstance(epoch, dict) else epoch
        if isinstance(number, int):
            if number < epochs.get(path, 0):
                yield f"{path}: epoch {number} after {epochs[path]}"
            epochs[path] = number


def _unbalanced(history: Iterable[Stored]) -> Iterator[str]:
    """Yield accounts that do not add up to zero, and balances in parts that are missing."""
    config_maps: set[str] = set()
    for path, document, _ in history:
        if "/configmaps/" in path:
            name = path.rpartition("/")[2]
            (config_maps.discard if document is None else config_maps.add)(name)
        status: dict[str, Any] = (document or {}).get("status") or {}
        account = status.get("account") or {}
        for field in ("coreHours", "cores"):
            total = sum(Decimal(each.get(field, "0")) for each in account.get("balances", ()))
            if total:
                yield f"{path}: {field} of the account add up to {total}"
        named = [
            part["name"]
            for each in (account, status.get("ledger") or {})
            for part in each.get("parts") or ()
        ]
        if missing := set(named) - config_maps:
            yield f"{path}: names {sorted(missing)}, which do not exist"


def _shrinking(history: Iterable[Stored]) -> Iterator[str]:
    """Yield sums of what a pod has held that become smaller."""
    held: defaultdict[tuple[str, str, str], Decimal] = defaultdict(Decimal)
    for path, document, _ in history:
        status: dict[str, Any] = (document or {}).get("status") or {}
        for field, entries, amount in (
            ("runs", "underway", "heldSeconds"),
            ("deadline", "pods", "work"),
        ):
            for each in (status.get(field) or {}).get(entries) or ():
                key = path, field, each["podUID"]
                found = Decimal(str(each.get(amount, 0)))
                if found < held[key]:
                    yield f"{path}: {amount} of {each['podUID']} falls from {held[key]} to {found}"
                held[key] = found
