"""Reservation of cores for deadlines, in markets that charge budgets for cores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from walras.division.deadlines.budget import Budgets
from walras.division.deadlines.request import Answer, Request, with_reserved
from walras.division.holdings import THOUSANDTH
from walras.market.snapshot import identity

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from walras.division.deadlines.request import Decide
    from walras.market.plan import Plan
    from walras.market.snapshot import Policy, Snapshot


ROUNDS = 4
"""Most times that deadlines become more modest or fewer before all that do not hold are dropped."""

LEEWAY = 1.5 * THOUSANDTH
"""Cores by which a reservation may be missed, for thousandths and the error of prices."""


def keep_standing(
    snapshot: Snapshot, policy: Policy, decide: Decide, requests: Sequence[Request]
) -> tuple[list[Request], Plan]:
    """Return the accepted deadlines whose cores the market still gives, and its plan.

    Where a user's budget does not pay for all of them any more, those without cores to spare are
    tried, then those without the margin for errors, and then one less.
    """
    chosen = [each for each in requests if each.standing and each.within_reach]
    for _ in range(ROUNDS):
        plan = decide(with_reserved(snapshot, chosen), policy)
        broken = not_held(plan, snapshot, chosen)
        if not broken:
            return chosen, plan
        users, last = {each.user for each in broken}, _last_of_users(broken)
        modest = [each.more_modest if each.user in users else each for each in chosen]
        chosen = modest if modest != chosen else [each for each in chosen if each not in last]
    chosen = [each for each in chosen if each.user not in users]
    return chosen, decide(with_reserved(snapshot, chosen), policy)


def accept_new(
    snapshot: Snapshot,
    policy: Policy,
    decide: Decide,
    requests: Sequence[Request],
    chosen: list[Request],
    plan: Plan,
    answers: dict[tuple[str, str], Answer],
) -> tuple[list[Request], Plan]:
    """Return the accepted deadlines with the new ones among them, and the plan with all of them.

    Accepted ones have no cores to spare where a new one cannot have its cores otherwise.
    """
    budgets = Budgets(snapshot, policy, plan, [each.without_spare for each in chosen])
    standing = {each.job for each in chosen}
    admitted = []
    for request in requests:
        if request.job in standing or not request.within_reach or not request.reserves:
            continue
        answer = budgets.reserve(request)
        if answer.state == "Reserved":
            admitted.append(request)
        answers[request.job] = answer
    kept = chosen
    for _ in range(ROUNDS):
        if not admitted:
            break
        together = sorted([*kept, *admitted])
        trial = decide(with_reserved(snapshot, together), policy)
        broken = not_held(trial, snapshot, together)
        if not broken:
            return together, trial
        modest = [each.without_spare for each in kept]
        if modest != kept:
            kept = modest
            continue
        new = [each for each in broken if each.job not in standing]
        bold = new or [each for each in admitted if not answers[each.job].sure]
        last = _last_of_users(bold or broken)
        admitted = [each for each in admitted if each not in last]
        kept = [each for each in kept if each not in last]
        answers.update((each.job, Answer("Crowded")) for each in last)
    answers.update((each.job, Answer("Crowded")) for each in admitted)
    return (
        keep_standing(snapshot, policy, decide, kept) if len(kept) < len(chosen) else (chosen, plan)
    )


def not_held(plan: Plan, snapshot: Snapshot, chosen: Iterable[Request]) -> list[Request]:
    """Return the deadlines whose reserved cores the plan does not give.

    Nodes that keep their division whatever happens do not count.
    """
    held = plan.holdings()
    missed = []
    for request in chosen:
        for part in request.parts:
            job = snapshot.jobs[part.number]
            if (
                held.get(identity(job), 0.0) < part.cores - LEEWAY
                and job.node not in snapshot.frozen
            ):
                missed.append(request)
                break
    return missed


def _last_of_users(requests: Iterable[Request]) -> list[Request]:
    """Return the last of each user's requests, in the order of acceptance."""
    return list({each.user: each for each in sorted(requests)}.values())
