"""Results of pure functions, kept from one decision to the next while their inputs stay the same.

**The rule.** A result is used again if every input is the same as when it was computed: the same
object, a list or tuple of the same objects in the same order, or an equal number, text, set,
mapping, speedup or snapshot. Otherwise it is computed. So the functions must be pure, with all
that they depend on among their inputs, and nobody may change an input or a result in place, which
holds for parsed objects and for the values of a decision.
"""

from __future__ import annotations

from decimal import Decimal
from operator import is_
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

from walras.market.snapshot import Policy, Snapshot
from walras_api.job_inputs import Speedup

if TYPE_CHECKING:
    from collections.abc import Callable

Inputs = TypeVarTuple("Inputs")
T = TypeVar("T")

_COMPARED = frozenset({str, int, float, bool, Decimal, frozenset, dict, Speedup, Policy, Snapshot})


class Kept:
    """Results that the last decision used, and those that this one has used so far."""

    def __init__(self) -> None:
        self._last: dict[tuple[Callable[..., Any], str], tuple[tuple[Any, ...], Any]] = {}
        self._now: dict[tuple[Callable[..., Any], str], tuple[tuple[Any, ...], Any]] = {}
        self._parts: dict[str, Kept] = {}

    def next(self) -> None:
        """Begin another decision: forget what the last one did not use."""
        self._last, self._now = self._now, {}

    def part(self, name: str) -> Kept:
        """Return the results of a function that keeps some itself, and calls `next` when called.

        It is one of that function's inputs, and is always the same object.
        """
        return self._parts.setdefault(name, Kept())

    def of(self, name: str, function: Callable[[*Inputs], T], *inputs: *Inputs) -> T:
        """Return what a function returns for inputs, without a call if that is known.

        Args:
            name: Object that the result is about, empty if it is about all: of each function and
                name, one result is kept.
            function: A pure function, defined by a module or a class.
            inputs: All that its result depends on.
        """
        key = function, name
        known = self._now.get(key) or self._last.get(key)
        if known is None or not (
            all(map(is_, known[0], inputs)) or all(map(_same, known[0], inputs))
        ):
            known = inputs, function(*inputs)
        self._now[key] = known
        result: T = known[1]
        return result


def _same(one: object, other: object) -> bool:
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if type(one) in _COMPARED:
        return one == other
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(is_, one, other))
    return False
