"""The page that ``walras what-if`` shows: plans with and without changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from walras.sensitivity import sensitivity
from walras_cli.what_if.plans import clear_by
from walras_cli.what_if.report import document, render

if TYPE_CHECKING:
    from rich.console import RenderableType

    from walras.sensitivity import FractionSensitivity
    from walras_cli.what_if.plans import MechanismOptions
    from walras_cli.what_if.sources import Source
    from walras_cli.what_if.tables import Cleared


@dataclass(frozen=True, slots=True)
class WhatIfPage:
    """Plans of a situation, with and without changes.

    Attributes:
        cleared: one for each mechanism.
        notes: one line on everything that takes no part or is not known.
        before: the first of them without the changes; None if there are none.
        shifts: Effects of over-estimated parallel fractions; empty unless requested.
    """

    cleared: tuple[Cleared, ...]
    notes: tuple[str, ...]
    before: Cleared | None
    shifts: tuple[FractionSensitivity, ...] = ()

    @classmethod
    def of(cls, source: Source, wish: MechanismOptions) -> WhatIfPage:
        """Clear the market, with and without the changes.

        Raises:
            BadInput: it cannot be cleared.
        """
        policies = wish.policies(source.then.rules)
        anew = len(policies) > 1
        before = None
        if source.now is not None:
            first = wish.policies(source.now.rules)[:1]
            before = clear_by(source.now, first, anew=anew)[0]
        cleared = clear_by(source.then, policies, anew=anew)
        shifts = sensitivity(source.then.snapshot, policies[0]) if wish.sensitivity else ()
        return cls(tuple(cleared), source.then.notes, before, shifts)

    def document(self) -> dict[str, Any]:
        """Return all of it."""
        return document(self.cleared, self.notes, self.before, self.shifts)

    def render(self, *, wide: bool) -> list[RenderableType]:  # noqa: ARG002 - all is shown anyway
        """Return it for people."""
        return render(self.cleared, self.notes, self.before, self.shifts)
