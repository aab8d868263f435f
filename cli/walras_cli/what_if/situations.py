"""Facts: what a market is to be cleared of: documents of files, or a cluster as it is now."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from walras.admission import EntitlementError, check_tree
from walras.resources.assembly import MOST_NAMED, assemble, assemble_on_one_node
from walras_operator.conditions import Problem
from walras_operator.last_decision import account, carried
from walras_operator.status.objects import reference_of
from walras_operator.validation import validate
from walras_service.failures import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterator

    from walras.resources.assembly import Objects
    from walras.resources.kinds import AnyResource, MarketSpec
    from walras.snapshot import Snapshot
    from walras_operator.validation import Validated
    from walras_operator.world import World

NODE = "localhost"
"""The name of the one node that --cores stands for."""


@dataclass(frozen=True, slots=True)
class Situation:
    """A market that can be cleared.

    Attributes:
        snapshot: Input of the market.
        rules: Rules of the Market.
        notes: one line on everything that takes no part or is not known.
    """

    snapshot: Snapshot
    rules: MarketSpec
    notes: tuple[str, ...]


def situation_of_documents(objects: Objects, names: str, cores: int | None) -> Situation:
    """Take documents as they are; all of them must be right.

    Args:
        objects: Objects in the documents.
        names: Names of their files, for messages.
        cores: Cores of one node in place of Nodes and Pods; None to use those of the documents.

    Raises:
        BadInput: they make no market.
    """
    if not objects.jobs:
        raise BadInput(f"{names}: no MarketJob in it; add what should be divided cores")
    try:
        made = assemble(objects) if cores is None else assemble_on_one_node(objects, NODE, cores)
        check_tree(made.snapshot.entitlements)
    except EntitlementError as error:
        raise BadInput(f"{names}: Entitlement {error.entitlement}: {error}") from error
    except ValueError as error:
        raise BadInput(f"{names}: {error}") from error
    return Situation(made.snapshot, objects.rules, made.notes)


def situation_of_world(world: World, objects: Objects) -> Situation:
    """Take a cluster as the operator would, with what it decided last.

    Args:
        world: the cluster.
        objects: Objects to use in place of the world's, with their rules.
    """
    there = _changed(world, objects)
    validated, before, credit = validate(there, objects.rules), carried(world), account(world)
    ledger = None if isinstance(credit, Problem) else credit.closing
    snapshot = replace(validated.assembled.snapshot, held=before.held, ledger=ledger)
    notes = (*_problems(there, validated), *validated.assembled.notes)
    return Situation(snapshot, objects.rules, notes)


def _changed(world: World, objects: Objects) -> World:
    """Return a cluster with other objects: what was broken may be right, and new nodes sell."""
    own: tuple[AnyResource, ...] = (*objects.entitlements, *objects.jobs, *objects.profiles)
    right = {reference_of(each) for each in own}
    known = {each.metadata.name for each in world.objects.nodes}
    new = {each.metadata.name for each in objects.nodes} - known
    return replace(
        world,
        objects=objects,
        broken={name: each for name, each in world.broken.items() if name not in right},
        agents=world.agents | new,
    )


def _problems(world: World, validated: Validated) -> Iterator[str]:
    """Yield a line on each kind of thing that keeps objects out."""
    for reference, broken in sorted(world.broken.items()):
        yield f"{reference.title}: {'; '.join(broken.problems)}"
    for name, problem in validated.entitlements.items():
        yield f"Entitlement {name}: {problem.message}"
    for (namespace, name), problem in validated.jobs.items():
        if (namespace, name) not in validated.assembled.refused:  # those are in the plan
            yield f"MarketJob {namespace}/{name}: {problem.message}"
    shut = [f"{name} {why}" for name, why in validated.closed.items()]
    if shut:
        more = f" and {len(shut) - MOST_NAMED} more" if len(shut) > MOST_NAMED else ""
        yield f"nodes that sell nothing: {', '.join(shut[:MOST_NAMED])}{more}"
