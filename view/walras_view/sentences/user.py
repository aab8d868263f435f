"""Pure: what is said of an Entitlement: its place, what it has, what it is owed, its partners."""

from __future__ import annotations

from typing import TYPE_CHECKING

from walras_view.text import cores, decimal, memory

if TYPE_CHECKING:
    from walras_view.explain.user import CoreCreditFigures, Quantum, UserExplanation
    from walras_view.rows.users import UserRow


SMALLEST_RATE = 0.005
"""Cores by which a balance must grow or shrink for that to be told."""


SMALLEST_CHANGE = 0.005
"""Part of a budget that counts as no change, half of what is printed."""


def user_facts(user: UserExplanation) -> tuple[tuple[str, str], ...]:
    """Return what is said about an entitlement, each after its name."""
    row = user.user
    return (
        ("shares", _places(user)),
        ("cores", _cores(row)),
        ("memory", _memory(row)),
        ("utility", _utility(row)),
        *_quantum(user.quantum),
    )


def _cores(row: UserRow) -> str:
    if row.cores.entitled is None:
        return "none, because no job draws on it"
    beyond = row.cores.used_beyond or 0.0
    used = "" if row.cores.used is None else f", uses {cores(row.cores.used - beyond)} of them"
    if round(beyond, 2):
        used += f" and {cores(beyond)} that others left"
    return (
        f"entitled to {cores(row.cores.entitled)}, its budget; bought "
        f"{cores(row.cores.bought)}, holds {cores(row.cores.held)}{used}"
    )


def _memory(row: UserRow) -> str:
    if row.memory.entitled is None:
        return "none; the market divides no memory for it"
    return (
        f"entitled to {memory(row.memory.entitled)}, granted {memory(row.memory.granted)} of the "
        f"{memory(row.memory.demand)} that its jobs could use"
    )


def _utility(row: UserRow) -> str:
    if row.gain is None:
        return "unknown"
    return (
        f"{decimal(row.utility, 3)}, against {decimal(row.entitlement_utility, 3)} at its bare "
        f"entitlement ({row.gain:+.1%})"
    )


def _quantum(quantum: Quantum | None) -> list[tuple[str, str]]:
    """Return what Karma's last quantum did to it."""
    if quantum is None:
        return []
    earned, spent = (decimal(float(each), 1) for each in (quantum.earned, quantum.spent))
    said = [f"earned {earned} credits, spent {spent}"]
    for verb, whom, loans in (
        ("lent", "to", quantum.lent),
        ("borrowed", "from", quantum.borrowed),
    ):
        if loans:
            names = [f"{memory(each.memory)} {whom} {each.name or 'nobody'}" for each in loans]
            said.append(f"{verb} {', '.join(names)}")
    return [(f"quantum {quantum.number}", "; ".join(said))]


def account_rows(user: UserExplanation) -> list[tuple[str, str, str]]:
    """Return what others owe an entitlement: of what, how much, and what follows from it."""
    rows = []
    cores = user.core_credits
    if cores is not None:
        owed = _owed(cores.core_hours, "core-hours")
        if abs(cores.cores) >= SMALLEST_RATE:
            grows = "more" if (cores.cores > 0) == (cores.core_hours > 0) else "less"
            owed += f", {abs(cores.cores):.2f} {grows} each hour"
        rows.append(("cores", owed, _effect(cores)))
    above = user.user.credits_above_mean
    if above is not None:
        owed = (
            f"{above:+.1f} credits"
            if user.gib_hours is None
            else _owed(user.gib_hours, "GiB-hours")
        )
        rows.append(("memory", owed, f"{above:+.1f} credits relative to the mean of all users"))
    elif user.user.credits is not None:
        mean = "you may not see the mean of all users, to compare it with"
        rows.append(("memory", f"{decimal(float(user.user.credits), 1)} credits", mean))
    return rows


def _owed(amount: float, unit: str) -> str:
    if round(abs(amount), 1) == 0:
        return "nothing"
    return f"{'is owed' if amount > 0 else 'owes'} {abs(amount):.1f} {unit}"


def _effect(credits_: CoreCreditFigures) -> str:
    if credits_.budget_factor is None:
        return "no budget without jobs"
    change = credits_.budget_factor - 1
    if abs(change) < SMALLEST_CHANGE:
        return "its budget is that of its shares"
    return f"its budget is {abs(change):.0%} {'larger' if change > 0 else 'smaller'} now"


def _places(user: UserExplanation) -> str:
    steps = [
        f"{each.shares}{'' if each.of is None else f' of {each.of}'} shares of "
        f"{each.parent or 'the cluster'}"
        for each in user.places
    ]
    part = user.user.budget_share
    return ", ".join(steps) + ("" if part is None else f": {part:.1%} of the cluster")


def partners_sentence(user: UserExplanation) -> str:
    """Return to whom an entitlement lends and from whom it borrows; empty if to and from none."""
    lent = [f"{each.cores:.2f} to {each.name}" for each in user.partners if each.cores > 0]
    borrowed = [f"{-each.cores:.2f} from {each.name}" for each in user.partners if each.cores < 0]
    return "; ".join(
        f"{verb} {', '.join(whom)}"
        for verb, whom in (("lends", lent), ("borrows", borrowed))
        if whom
    )


def user_sentences(user: UserExplanation) -> list[str]:
    """Return what is said of an entitlement beside its state and account, where no tables are."""
    sentence = partners_sentence(user)
    return [
        *(f"{subject}: {text}" for subject, text in user_facts(user)),
        *([sentence] if sentence else []),
    ]
