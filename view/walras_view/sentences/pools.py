"""Pure: what is said of a node pool: what a node more or less would change, and what is advised."""

from __future__ import annotations

from typing import TYPE_CHECKING

from walras_view.text import memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from walras.analysis.pool_effects import UserChange
    from walras_view.explain.pools import PoolExplanation, PredictionsExplanation, PricedEffect


_PREDICTED = {
    "Finish": ("ends", "the time that they looked ahead"),
    "Node": ("gains by one more node", "the progress before"),
    "Gain": ("gains by moved cores", "the progress before"),
    "Penalty": ("penalties beside a co-runner", "the progress alone"),
    "Speedup": ("speedups by F", "the predicted progress"),
}
"""What was predicted, by kind, and what errors are given as parts of."""


def pool_sentences(pool: PoolExplanation) -> Iterator[str]:
    """Yield what more and fewer nodes of a pool would change, and what is recommended."""
    if pool.one_more is not None:
        yield f"one more node of pool {pool.name} would {_effect(pool.one_more)}"
    if pool.one_less is not None:
        yield f"one node less would {_effect(pool.one_less)}"
    if pool.core_value is not None:
        yield f"one more core would add {_speedup(pool.core_value)}"
    yield from _in_money(pool)
    if pool.advice:
        yield pool.advice
    if pool.memory_value is not None:
        yield (
            f"jobs here could use {memory(pool.unmet_memory)} of memory beyond their grants; of "
            f"one more GiB, they would use {pool.memory_value:.0%} at once"
        )


def prediction_sentence(made: PredictionsExplanation) -> str:
    """Return how good predictions were that came true, and what follows from it."""
    figures, part = _PREDICTED.get(made.of, (made.of, "what was predicted"))
    said = (
        f"{made.coverage:.0%} of {made.number} predicted {figures} came within their error, which "
        f"was {percent(made.width)} of {part}; their score is {made.crps:.1%} of it (CRPS, 0 is "
        "perfect)"
    )
    if made.widening <= 1:
        return said
    so = {
        "Finish": "those of jobs that start now are {:.1f} times as wide",
        "Node": "those that are shown now are {:.1f} times as wide",
    }.get(made.of, "right ones would have been {:.1f} times as wide")
    return f"{said}; these errors were too small, and {so.format(made.widening)}"


def _effect(effect: PricedEffect) -> str:
    gains = effect.progress >= 0
    verb = "bring {} more progress" if gains else "cost {} of progress"
    mine, others = (effect.gaining, effect.losing) if gains else (effect.losing, effect.gaining)
    parts = ", ".join(f"{each.part:.0%} {'to' if gains else 'from'} {each.user}" for each in mine)
    about = "" if effect.progress_error is None else f" ±{percent(effect.progress_error)}"
    said = verb.format(percent(abs(effect.progress)) + about) + (f" ({parts})" if parts else "")
    return said + (f"; {_others(others)}" if others else "")


def _others(users: Sequence[UserChange]) -> str:
    """Return how the utility of users changes against the trend."""
    changes = ", ".join(f"{each.user} {percent(each.utility, sign=True)}" for each in users)
    return f"utility of others: {changes}"


def _speedup(value: float) -> str:
    return f"{value:.3f} to the total speedup, in which a job alone on one core counts as 1"


def _in_money(pool: PoolExplanation) -> Iterator[str]:
    price, more = pool.price_per_node_hour, pool.one_more
    if more is not None and more.worth_per_hour is not None:
        beside = "" if price is None else f", and a node costs {price:g}"
        yield f"the work of one more node is worth {more.worth_per_hour:.3g} an hour{beside}"
    if pool.recommended_nodes is not None:
        yield _recommendation(pool.nodes, pool.recommended_nodes)


def _recommendation(present: int, number: int) -> str:
    said = f"{number} node{' is' if number == 1 else 's are'} recommended"
    if number == present:
        return f"{said}, as many as there are"
    why = "the last of them is worth its price, and another one is not"
    if number == 2 * present:
        why = "the last of them is worth its price; more than twice as many were not considered"
    elif number == -(-present // 2):
        why = "another one is not worth its price; less than half as many were not considered"
    difference = f"{abs(number - present)} {'more' if number > present else 'fewer'}"
    return f"{said}, {difference} than there are: {why}"


def percent(value: float, *, sign: bool = False) -> str:
    """Return a part as a percentage of two significant digits."""
    percent = 100 * value
    digits = 0 if abs(percent) >= 9.95 else 1 if abs(percent) >= 0.995 else 2
    return f"{percent:{'+' if sign else ''}.{digits}f}%"
