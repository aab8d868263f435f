"""Modes: whether plans are enforced, only observed, or not made, by node and by namespace.

Of all that names a mode for a node, or for a namespace, the strictest counts.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, get_args

from walras_api.contract import MODE_LABEL, Mode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from walras_api.cluster import Namespace, NodeObject, Pod
    from walras_api.market import MarketSpec
    from walras_api.model import LabelSelector
    from walras_api.selection import Selection

STRICTEST_FIRST: Sequence[Mode] = get_args(Mode)


def mode_of_node(node: NodeObject, rules: MarketSpec) -> Mode:
    """Return the mode that a node is to have."""
    return _mode(node.metadata.labels, rules.scope.node_selector, rules)


def mode_of_namespace(namespace: Namespace, rules: MarketSpec) -> Mode:
    """Return the mode that pods of a namespace have at most."""
    return _mode(namespace.metadata.labels, rules.scope.namespace_selector, rules)


def most_changing(rules: MarketSpec, nodes: int) -> int:
    """Return how many nodes may begin to enforce plans at a time; a part is rounded up."""
    given = rules.scope.max_changing
    return math.ceil(nodes * int(given[:-1]) / 100) if given.endswith("%") else int(given)


def left_out(
    pods: Sequence[Pod],
    selection: Selection,
    nodes: Mapping[str, Mode],
    namespaces: Mapping[str, Mode],
) -> dict[int, str]:
    """Return why pods of jobs take no part though their nodes sell cores, by position.

    On a node, either all that is planned is enforced, or nothing. So pods of a namespace that is to
    be observed keep what they requested on nodes that enforce, as pods outside the market.

    Args:
        pods: Pods of the cluster.
        selection: MarketJob of each pod.
        nodes: Modes of nodes.
        namespaces: Modes of namespaces that are stricter than the Market's.
    """
    if not namespaces:
        return {}
    why = {}
    for number in selection.job:
        pod = pods[number]
        mine = namespaces.get(pod.metadata.namespace, "enforce")
        its = nodes.get(pod.spec.node_name or "", "enforce")
        if _strictness(mine) < _strictness(its):
            told = "observed" if mine == "observe" else "off"
            why[number] = f"its namespace is {told}, and its node enforces"
            if mine == "off":
                why[number] = "its namespace is off"
    return why


def _mode(labels: Mapping[str, str], selector: LabelSelector | None, rules: MarketSpec) -> Mode:
    wanted = {} if selector is None else selector.match_labels
    selected = all(labels.get(key) == value for key, value in wanted.items())
    scope = "enforce" if selected else rules.scope.elsewhere
    return min(rules.mode, scope, _labelled(labels), key=_strictness)


def _labelled(labels: Mapping[str, str]) -> Mode:
    """Return the mode that a label names; a misspelt one writes nothing to the node."""
    given = labels.get(MODE_LABEL, "enforce")
    return next((mode for mode in STRICTEST_FIRST if mode == given), "observe")


def _strictness(mode: Mode) -> int:
    return STRICTEST_FIRST.index(mode)
