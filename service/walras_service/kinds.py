"""Pure: the kinds of objects that Walras reads and writes, and their paths on the API server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from walras_api.contract import GROUP, NAMESPACED_KINDS, PLURALS, VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind, as the API server serves it.

    Attributes:
        group: API group; empty for the core group.
        version: Version of the group.
        plural: Plural resource name, as used in paths.
        namespaced: Whether its objects live in namespaces.
    """

    group: str
    version: str
    plural: str
    namespaced: bool = False

    @property
    def api_version(self) -> str:
        """Value of ``apiVersion`` in documents."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """What kubectl calls the kind."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the path of all objects of the kind, or of one object or its subresource."""
        parts = [f"apis/{self.group}" if self.group else "api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        return "/" + "/".join([*parts, self.plural, *filter(None, (name, subresource))])


OURS: Mapping[str, Kind] = {
    kind: Kind(GROUP, VERSION, plural, namespaced=kind in NAMESPACED_KINDS)
    for kind, plural in PLURALS.items()
}
"""Kinds of Walras, by name."""

CONFIG_MAPS = Kind("", "v1", "configmaps", namespaced=True)
DEPLOYMENTS = Kind("apps", "v1", "deployments", namespaced=True)
EVENTS = Kind("", "v1", "events", namespaced=True)
JOBS = Kind("batch", "v1", "jobs", namespaced=True)
LEASES = Kind("coordination.k8s.io", "v1", "leases", namespaced=True)
NAMESPACES = Kind("", "v1", "namespaces")
NODES = Kind("", "v1", "nodes")
PODS = Kind("", "v1", "pods", namespaced=True)
STATEFUL_SETS = Kind("apps", "v1", "statefulsets", namespaced=True)

WORKLOADS: Mapping[str, Kind] = {
    "Deployment": DEPLOYMENTS,
    "Job": JOBS,
    "StatefulSet": STATEFUL_SETS,
}
"""Kinds of Kubernetes that make pods, and that users may label for the market, by name."""
