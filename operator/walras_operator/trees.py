"""Chooses (pure): which entitlements form no tree, and which of them is to be corrected.

One bad parent must not stop everybody else: entitlements that are or hang below it take no part,
and each says which one to correct.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from walras_operator.conditions import MOST_TOLD, Problem

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from walras.resources.kinds import Entitlement

HANGING = "BelowUnusable"


def uprooted(
    entitlements: Sequence[Entitlement], broken: Collection[str] = frozenset()
) -> dict[str, Problem]:
    """Return what is wrong with each entitlement that has no place in the tree, by name.

    Args:
        entitlements: all that could be understood.
        broken: names of those that could not.
    """
    parents = {each.metadata.name: each.spec.parent for each in entitlements}
    found: dict[str, Problem | None] = {}
    for name in parents:
        path = _unknown_part(name, parents, found)
        top = path[-1] if path else name
        parent = parents[top]
        if parent is not None and parent in path:
            cycle = path[path.index(parent) :]
            found.update(dict.fromkeys(cycle, _of_cycle(cycle)))
        for each in reversed(path):
            if each not in found:
                found[each] = _below(parents[each], parents, found, broken)
    return {name: problem for name, problem in found.items() if problem is not None}


def _unknown_part(
    name: str, parents: Mapping[str, str | None], found: Mapping[str, Problem | None]
) -> list[str]:
    """Return the way up from an entitlement to where it is known, ends, or was before."""
    path: dict[str, None] = {}
    at: str | None = name
    while at is not None and at in parents and at not in found and at not in path:
        path[at] = None
        at = parents[at]
    return list(path)


def _of_cycle(names: Sequence[str]) -> Problem:
    first = names.index(min(names))
    order = [*names[first:], *names[:first]]
    shown = " -> ".join([*order[: 2 * MOST_TOLD], "..."] if len(order) > 2 * MOST_TOLD else order)
    return Problem(
        "Cycle",
        f"is its own ancestor ({shown} -> {order[0]}); remove spec.parent from one of them",
    )


def _below(
    parent: str | None,
    parents: Mapping[str, str | None],
    found: Mapping[str, Problem | None],
    broken: Collection[str],
) -> Problem | None:
    if parent is None:
        return None
    if parent in broken:
        return _hanging(parent, "it is invalid, see its conditions")
    if parent not in parents:
        return Problem(
            "ParentMissing",
            f"spec.parent: Entitlement {parent} does not exist; create it or correct the field",
        )
    above = found[parent]
    if above is None or above.reason == HANGING:
        return above
    return _hanging(parent, above.message)


def _hanging(culprit: str, why: str) -> Problem:
    return Problem(HANGING, f"hangs below Entitlement {culprit}; correct that one: {why}")
