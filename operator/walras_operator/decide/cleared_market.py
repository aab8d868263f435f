"""Pure: clear the market by given rules, or say why that is impossible (phases 1 and 2)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from walras.clearing import clear
from walras.market.account import credits_taken_over
from walras.market.snapshot import FOR_COMPARISON
from walras.mechanisms.karma.ledger import KarmaError
from walras_api.assembly import policy_of
from walras_operator.decide.conditions import Problem
from walras_operator.decide.credits.account import account_now
from walras_operator.decide.credits.quanta import current_quantum, end_of
from walras_operator.decide.deadlines.follow import follow, with_deadlines
from walras_operator.decide.last_decision import core_account, ledger_account, names_of_entitlements
from walras_operator.decide.validation import Validated, validate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from walras.market.plan import Plan
    from walras.market.snapshot import Snapshot
    from walras.mechanisms.karma.ledger import Ledger
    from walras_api.job_inputs import Name
    from walras_api.kinds import Market, MarketSpec
    from walras_operator.decide.credits.quanta import CurrentQuantum
    from walras_operator.decide.deadlines.follow import FollowedJob
    from walras_operator.decide.world import Account, Carried, World


class Cleared(NamedTuple):
    """A market that was cleared.

    Attributes:
        rules: Rules by which it was cleared.
        validated: Objects that take part under these rules.
        snapshot: Input of the market.
        plan: Outcome of the market.
        quantum: Karma quantum to which the plan belongs.
        stored: The account that was stored before.
        followed: Jobs with deadlines, by namespace and name.
        problem: Why the Market's current rules could not be used; None if they were.
    """

    rules: MarketSpec
    validated: Validated
    snapshot: Snapshot
    plan: Plan
    quantum: CurrentQuantum
    stored: Account
    followed: Mapping[Name, FollowedJob]
    problem: Problem | None

    def quantum_ends(self, now: str) -> str:
        """Return when memory is divided again (RFC 3339); empty if it is not divided."""
        if not self.plan.memory_mechanism:
            return ""
        since = now if self.plan.quantum is None else self.quantum.since
        return end_of(since, self.rules.memory.quantum_seconds)


def asked(plan: Plan, size: int) -> dict[str, dict[str, int]]:
    """Return the bytes that entitlements demand in the current quantum, by node and entitlement.

    Args:
        plan: Plan of the market.
        size: Bytes of a slice.
    """
    demands = {} if plan.quantum is None else plan.quantum.demands()
    return {
        node: {name: slices * size for name, slices in of.items()} for node, of in demands.items()
    }


def unusable(market: Market | None) -> Problem | None:
    """Return why the rules of the Market cannot be used, as far as that is known before."""
    if market is None:
        return Problem("Invalid", "its rules cannot be understood")
    if market.spec.cores.mechanism not in FOR_COMPARISON:
        return None
    return Problem(
        "ForComparison",
        f"spec.cores.mechanism: {market.spec.cores.mechanism} is for comparisons by walras what-if "
        f"only, since entitlements do not bind it; name AmdahlBidding",
    )


def candidates(
    market: Market | None, before: Carried, problem: Problem | None
) -> Iterable[MarketSpec]:
    """Yield the Market's rules unless they have a problem, then the last ones that were used."""
    if market is not None and problem is None:
        yield market.spec
    if before.rules is not None and (market is None or before.rules != market.spec):
        yield before.rules


def clear_market(
    world: World, before: Carried, rules: MarketSpec, problem: Problem | None
) -> Cleared | Problem:
    """Return the cleared market, or why it cannot be cleared by these rules.

    Args:
        world: Everything that the operator knows, with the results of measurements.
        before: State from the last decision.
        rules: Rules to use.
        problem: Why the Market's current rules could not be used; None if they are these.
    """
    kept, stored = ledger_account(world), core_account(world)
    if isinstance(kept, Problem):
        return kept
    if isinstance(stored, Problem):
        return stored
    validated, turn = validate(world, rules), current_quantum(kept, before, rules, world.now)
    followed, names = follow(world, validated), names_of_entitlements(world)
    snapshot = with_deadlines(validated.assembled.snapshot, followed, world.now)
    taking_part = {each.name for each in snapshot.entitlements}
    unusable = [name for name in names if name not in taking_part]
    snapshot = replace(
        snapshot,
        held=before.held,
        ledger=_ledger(turn, stored, snapshot, unusable),
        earlier_demands=turn.asked,
        matching=world.matching,
        account=account_now(stored, world.now, rules, snapshot.entitlements, unusable),
    )
    try:
        plan = world.kept.of("", clear, snapshot, policy_of(rules))
    except KarmaError as error:
        return Problem(
            "CannotClear",
            f"spec.memory.sliceSize: memory cannot be divided in slices this small ({error}); "
            f"make it larger, though old credits then count for more memory",
        )
    except ValueError as error:
        return Problem("CannotClear", f"spec: mechanism {rules.cores.mechanism}: {error}")
    return Cleared(rules, validated, snapshot, plan, turn, stored, followed, problem)


def _ledger(
    turn: CurrentQuantum, stored: Account, snapshot: Snapshot, unusable: Iterable[str]
) -> Ledger | None:
    """Return Karma's credits before the quantum, of today's entitlements."""
    if turn.ledger is None:
        return None
    there = [name for name in unusable if name in turn.ledger.users]
    return credits_taken_over(turn.ledger, stored.balances, snapshot.entitlements, there)
