"""Pure, except that it prints what cannot be cleared: situations to plans."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

import click

from walras.auctions import PricingError
from walras.clearing import clear
from walras.plan_quality import evaluate_plan
from walras.resources.assembly import policy_of
from walras.snapshot import ColocationRule, CoreMechanism, MemoryMechanism
from walras_cli.what_if.tables import Cleared
from walras_service.failures import BadInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walras.resources.kinds import MarketSpec
    from walras.snapshot import Policy
    from walras_cli.what_if.situations import Situation


@dataclass(frozen=True, slots=True)
class MechanismOptions:
    """Mechanisms chosen on the command line; None where the Market's rules apply.

    Attributes:
        cores: several to compare, or all.
        memory: Mechanism for memory, in place of the Market's.
        colocation: Policy of colocation, in place of the Market's.
        sensitivity: whether to tell what over-estimated parallel fractions would move.
    """

    cores: tuple[CoreMechanism | Literal["all"], ...] = ()
    memory: MemoryMechanism | None = None
    colocation: ColocationRule | None = None
    sensitivity: bool = False

    def policies(self, rules: MarketSpec) -> list[Policy]:
        """Return the rules of a Market with each mechanism that was asked for."""
        policy = policy_of(rules)
        policy = replace(
            policy,
            memory=self.memory or policy.memory,
            colocation=self.colocation or policy.colocation,
        )
        wanted: list[CoreMechanism] = []
        for each in self.cores or (policy.cores,):
            wanted += _all_but_first(policy.cores) if each == "all" else [each]
        return [replace(policy, cores=mechanism) for mechanism in dict.fromkeys(wanted)]


def _all_but_first(first: CoreMechanism) -> list[CoreMechanism]:
    """Return all mechanisms, the Market's own first."""
    mechanisms: tuple[CoreMechanism, ...] = get_args(CoreMechanism)
    return [first, *(each for each in mechanisms if each != first)]


def clear_by(situation: Situation, policies: Sequence[Policy], *, anew: bool) -> list[Cleared]:
    """Clear a market by each policy; where one of several cannot, say so and go on.

    Args:
        situation: the market.
        policies: Policies to clear the market by.
        anew: whether nobody holds anything yet: mechanisms are compared like that, since cores that
            stay where they are while too little is gained would make all of them alike.

    Raises:
        BadInput: it can be cleared by none of them.
    """
    cleared = []
    snapshot = replace(situation.snapshot, held={}) if anew else situation.snapshot
    for policy in policies:
        try:
            plan = clear(snapshot, policy)
        except PricingError as error:
            problem = f"mechanism {policy.cores}: {error}"
            if len(policies) == 1:
                raise BadInput(problem) from error
            click.echo(f"walras: {problem}", err=True)
            continue
        cleared.append(Cleared(plan, evaluate_plan(snapshot, plan)))
    return cleared
