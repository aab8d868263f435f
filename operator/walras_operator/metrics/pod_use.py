"""Effects: ask the metrics API (``metrics.k8s.io``) what pods use, where a cluster has it."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from prometheus_client.core import GaugeMetricFamily

from walras_api.api_object import quantity
from walras_operator.metrics.market_sample import PodUsage, used_by_users
from walras_service.api_errors import ApiError
from walras_service.kinds import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prometheus_client.metrics_core import Metric

    from walras_operator.decide.world import World
    from walras_operator.metrics.market_sample import Use
    from walras_service.api import Api, Document

_log = logging.getLogger(__name__)

POD_METRICS = Kind("metrics.k8s.io", "v1beta1", "pods", namespaced=True)

PAUSE = 600.0
"""Seconds before a metrics API that did not answer is asked again."""

FRESH = 150.0
"""Seconds for which an answer counts."""

_PATIENCE = 10.0


class PodUse:
    """The last usage of pods by the metrics API.

    Args:
        api: Connection to the API server.
        clock: Returns seconds.
    """

    def __init__(self, api: Api, clock: Callable[[], float] = time.monotonic) -> None:
        self._api, self._clock = api, clock
        self._known: tuple[float, Use] | None = None
        self._again = -PAUSE
        self._problem = ""

    def read(self) -> Use | None:
        """Ask what pods use; return None if that is unknown."""
        now = self._clock()
        if now < self._again:
            return None
        try:
            metrics = self._api.request("GET", POD_METRICS.path(), timeout=_PATIENCE)
            use = use_of(metrics)
        except (ApiError, LookupError, TypeError, ValueError, AttributeError) as error:
            self._again = now + PAUSE
            if self._problem != str(error):
                _log.info("use of pods is unknown: %s", error, extra={"event": "history"})
            self._problem = str(error)
            return None
        self._problem, self._known = "", (now, use)
        return use

    @property
    def known(self) -> Use | None:
        """The last answer; None if there was none lately."""
        answer = self._known
        return None if answer is None or self._clock() - answer[0] > FRESH else answer[1]


class UseGauges:
    """Gauges of what users use (``prometheus_client.registry.Collector``), of the leader only.

    Args:
        world: Returns everything that the operator knows.
        use: Use of pods.
    """

    def __init__(self, world: Callable[[], World], use: PodUse) -> None:
        self._world, self._use = world, use

    def collect(self) -> Iterator[Metric]:
        """Yield all gauges."""
        users = used_by_users(self._world(), self._use.known)
        cores = _family("used_cores", "Cores that pods of the entitlement use.")
        beyond = _family(
            "used_beyond_cores", "Cores that pods of the entitlement use beyond what each holds."
        )
        memory = _family("used_memory_bytes", "Memory that pods of the entitlement use.")
        for user, used in users.items():
            cores.add_metric([user], used.cores)
            beyond.add_metric([user], used.beyond)
            if used.memory is not None:
                memory.add_metric([user], used.memory)
        yield from (cores, beyond, memory)


def _family(name: str, meaning: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"walras_operator_{name}", meaning, labels=["entitlement"])


def use_of(pods: Document) -> Use:
    """Return what pods use, from a list of the metrics API.

    Raises:
        LookupError, TypeError, ValueError, AttributeError: It is malformed.
    """
    return dict(map(_pod, pods["items"] or ()))


def _pod(document: Any) -> tuple[tuple[str, str], PodUsage]:
    metadata = document["metadata"]
    usages = [each.get("usage") or {} for each in document.get("containers") or ()]
    return (metadata["namespace"], metadata["name"]), PodUsage(
        float(sum(quantity(each.get("cpu", 0)) for each in usages)),
        float(sum(quantity(each.get("memory", 0)) for each in usages)),
    )
