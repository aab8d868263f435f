"""Pure: what is said of a node: what it sells, what is used of it, how its agent is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from walras_view.notes import EPOCHS
from walras_view.text import cores, memory

if TYPE_CHECKING:
    from walras_view.explain.node import Other, Supply
    from walras_view.rows.nodes import NodeRow

LEAST_UNSOLD = 0.01
"""Cores; fewer are what is left by rounding."""


def used_sentence(row: NodeRow) -> str:
    """Return what everything on a node uses."""
    if row.used is None:
        return "unknown"
    return (
        f"{cores(row.used)} cores and {memory(row.memory_used)} of memory, "
        f"by everything on the node"
    )


def unsold_sentence(row: NodeRow) -> str:
    """Return whose cores are that nobody buys; empty if there are none."""
    if not row.pods or not row.free or row.free < LEAST_UNSOLD:
        return ""
    return f"; nobody pays for {cores(row.free)}, which whoever wants them uses by weight"


def agent_sentence(row: NodeRow) -> str:
    """Return which plan a node's agent has, and which it enforced last."""
    if row.epoch is None:
        return "has no plan yet"
    held = "none yet" if row.enforced_epoch is None else str(row.enforced_epoch % EPOCHS)
    return f"{row.mode}s plan {row.epoch % EPOCHS}; last plan enforced in full: {held}"


def other_sentence(pod: Other) -> str:
    """Return what a pod outside the market requested, and what the market takes from it."""
    asked = f"{pod.cpus:g} CPU, {memory(pod.memory)}"
    if pod.plain is None or pod.least is None:
        return asked
    return (
        f"{asked}; at least {pod.least:.4g} cores while all pods are busy, on plain Kubernetes "
        f"{pod.plain:.4g}"
    )


def supply_sentence(supply: Supply) -> str:
    """Return how it comes to what a node sells."""
    if supply.cpus is None:
        return "unknown"
    least = "" if supply.cores == supply.cpus else f" ({cores(supply.cores)} physical cores)"
    left = "?" if supply.unmanaged is None else cores(supply.unmanaged)
    return (
        f"{cores(supply.cpus)} CPUs{least} for pods, less {supply.reserved} that the Market "
        f"reserves and {left} for pods outside the market"
    )
