"""Facts: everything that the operator knows at one moment, put together for a decision."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from walras_api.kept import Kept
from walras_operator.decide.credits.parts import part_names
from walras_operator.decide.last_decision import status_of_market
from walras_operator.watch.lookups import FIRST_WAIT, WAIT
from walras_service.api_errors import ApiError
from walras_service.times import rfc3339

if TYPE_CHECKING:
    from datetime import datetime

    from walras_operator.decide.world import Carried, World
    from walras_operator.loop.pool_signals import PoolSignals
    from walras_operator.publish.ledger_parts import LedgerParts
    from walras_operator.publish.publisher import Publisher
    from walras_operator.watch.lookups import Ends, Owners
    from walras_operator.watch.mirror import Mirror
    from walras_operator.watch.quota_watches import QuotaWatches

_log = logging.getLogger(__name__)


class Gatherer:
    """Puts worlds together.

    Args:
        mirror: Cache of the cluster.
        owners: Looks up the controllers of the owners of pods.
        ends: Looks up how pods ended.
        ledger_parts: Parts of the ledger.
        pools: Computes the signals of node pools.
        quotas: Knows the quotas that Entitlements follow.
        publisher: Knows why pods could not be placed, and whether the account was dropped.
        namespace: Namespace of this operator.
    """

    def __init__(
        self,
        mirror: Mirror,
        owners: Owners,
        ends: Ends,
        ledger_parts: LedgerParts,
        pools: PoolSignals,
        quotas: QuotaWatches,
        publisher: Publisher,
        namespace: str,
    ) -> None:
        self._mirror, self._owners, self._ends = mirror, owners, ends
        self._ledger_parts, self._pools, self._publisher = ledger_parts, pools, publisher
        self._quotas = quotas
        self._namespace = namespace
        self._kept = Kept()

    def world(
        self, now: datetime, carried: Carried | None, grace: float, led: str, *, matching: bool
    ) -> World:
        """Return everything that the operator knows.

        Args:
            now: Current time (UTC).
            carried: State from the last decision; None for the first decision of a leader.
            grace: Seconds for which a node keeps its grants while its agent is silent.
            led: Time until which an operator is known to have led; empty if unknown.
            matching: Whether to pair waiting pods now.
        """
        mirrored = self._mirror.world(rfc3339(now), grace)
        names = part_names(status_of_market(mirrored))
        if carried is None:
            self._delete_litter(names, now)
        controllers = self._owners.controllers(
            mirrored.objects,
            every_namespace=any(each.spec.jobs.create == "Entitled" for each in mirrored.markets),
            wait=FIRST_WAIT if carried is None else WAIT,
        )
        rules = carried.rules if mirrored.market is None and carried else None
        if mirrored.market is not None:
            rules = mirrored.market.spec
        return replace(
            mirrored,
            objects=replace(mirrored.objects, controllers=controllers),
            carried=carried,
            matching=matching,
            unplaceable=self._publisher.unplaceable,
            account_dropped=self._publisher.account_dropped,
            ends=self._ends.known,
            ledger_parts=self._ledger_parts.read(names),
            node_pools=self._pools.reports,
            namespace=self._namespace,
            quotas=self._quotas.of(None if rules is None else rules.entitlements.source),
            led_until=led,
            kept=self._kept,
        )

    def _delete_litter(self, names: tuple[str, ...], now: datetime) -> None:
        """Delete parts of the ledger that the Market's status does not name."""
        try:
            self._ledger_parts.sweep(names, now)
        except ApiError as error:
            _log.warning("parts of the ledger that nobody needs are left: %s", error)
