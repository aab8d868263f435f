"""Facts: which cluster a what-if is about, and what changes it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from walras.resources.contract import MARKET_NAME
from walras_cli.what_if.files import Documents, documents_of, overlaid
from walras_cli.what_if.situations import Situation, situation_of_documents, situation_of_world
from walras_service.failures import BadInput, Failure

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from walras.resources.kinds import MarketSpec
    from walras_cli.cluster.options import Target
    from walras_operator.world import World


@dataclass(frozen=True, slots=True)
class Source:
    """A cluster, without and with changes.

    Attributes:
        then: The cluster with the changes.
        now: without them; None if there are none.
        whole_and_live: whether it is a live cluster, as it is.
    """

    then: Situation
    now: Situation | None = None
    whole_and_live: bool = False

    @classmethod
    def of(
        cls,
        files: Sequence[Path],
        dumps: Sequence[Path],
        cores: int | None,
        target: Target,
        *,
        live: bool,
    ) -> Source:
        """Find out what is meant.

        Args:
            files: changes, or a cluster of their own.
            dumps: a cluster.
            cores: Cores of one node that takes all jobs of the documents.
            target: Live cluster to read.
            live: whether the files change that, even if they have Nodes.

        Raises:
            BadInput: the documents cannot be used.
            Failure: the live cluster cannot be asked.
        """
        documents = documents_of(files)
        if dumps:
            return _changed_dump(dumps, files, documents, cores)
        if not live and files and (cores is not None or documents.objects.nodes):
            return cls(situation_of_documents(documents.objects, _names(files), cores))
        world = _world(target, files)
        rules = _rules(world)
        if not files:
            return cls(_situation(world, rules, documents), whole_and_live=True)
        now = _situation(world, rules, documents_of(())) if rules else None
        return cls(_situation(world, rules, documents), now)


def _changed_dump(
    dumps: Sequence[Path], files: Sequence[Path], changes: Documents, cores: int | None
) -> Source:
    whole = documents_of(dumps).objects
    now = situation_of_documents(whole, _names(dumps), cores)
    if not files:
        return Source(now)
    names = _names([*dumps, *files])
    return Source(situation_of_documents(overlaid(whole, changes), names, cores), now)


def _world(target: Target, files: Sequence[Path]) -> World:
    from walras_cli.cluster.asking import asked
    from walras_cli.cluster.live import world_of

    try:
        with asked(target) as cluster:
            return world_of(cluster)
    except Failure as error:
        if not files:
            raise
        raise type(error)(
            f"{_names(files)}: no Node in it; add `kubectl get nodes,pods -A -o yaml`, or say "
            f"--cores N, for a cluster of its own; to change a live one: {error.format_message()}"
        ) from error


def _rules(world: World) -> MarketSpec | None:
    return next((each.spec for each in world.markets if each.metadata.name == MARKET_NAME), None)


def _situation(world: World, rules: MarketSpec | None, documents: Documents) -> Situation:
    objects = overlaid(world.objects, documents)
    rules = documents.rules or rules
    if rules is None:
        raise BadInput(
            f"the cluster has no Market named {MARKET_NAME}, or an invalid one; give one by -f"
        )
    return situation_of_world(world, replace(objects, rules=rules))


def _names(files: Sequence[Path]) -> str:
    return ", ".join(map(str, files))
