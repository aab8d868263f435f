"""Decisions with all their writes in one value, as tests compare them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from walras_operator.decide import decision, world
from walras_operator.decide.world import Carried, Reference, Writes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walras.market.plan import Plan
    from walras.market.snapshot import Snapshot
    from walras_api.kinds import MarketSpec
    from walras_api.market_status import NodeGain


@dataclass(frozen=True, slots=True)
class Decision(Writes):
    """All writes of a decision, and the other fields of the operator's value of this name."""

    carried: Carried = Carried()  # noqa: RUF009 - immutable
    rules: MarketSpec | None = None
    plan: Plan | None = None
    gains: Sequence[NodeGain] = ()
    snapshot: Snapshot | None = None
    notes: tuple[str, ...] = ()
    quantum_ends: str = ""
    ended: tuple[Reference, ...] | None = None


def decide(known: world.World) -> Decision:
    """Decide, and compute both parts of the decision."""
    made = decision.decide(known)
    return whole(made, made.writes())


def whole(made: world.Decision, writes: Writes) -> Decision:
    """Return a decision with writes that are all of it, or a part."""
    market = {} if made.market is None else made.market._asdict()
    return Decision(
        **{each.name: getattr(writes, each.name) for each in fields(Writes)},
        **made.wake._asdict(),
        **market,
        carried=made.carried,
        notes=made.notes,
    )
