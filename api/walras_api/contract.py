"""The names, and one bound, in the API of Walras, each stated once.

Other programs rely on these names: users' manifests, the chart, and agents and operators of other
versions. Changing one breaks them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, get_args

if TYPE_CHECKING:
    from collections.abc import Mapping

ApiVersion = Literal["walras.dev/v1alpha1"]
"""Type of ``apiVersion`` in documents."""

API_VERSION: Final[str] = get_args(ApiVersion)[0]
GROUP, _, VERSION = API_VERSION.partition("/")

PLURALS: Final[Mapping[str, str]] = {
    "Entitlement": "entitlements",
    "MarketJob": "marketjobs",
    "SpeedupProfile": "speedupprofiles",
    "Market": "markets",
    "NodeAllocation": "nodeallocations",
}
"""Plural resource name of each kind, by which the API server serves it."""

NAMESPACED_KINDS: Final = frozenset({"MarketJob", "SpeedupProfile"})
"""Kinds whose objects live in namespaces; the other kinds are cluster-scoped."""

MARKET_NAME: Final = "default"
"""Name of the only Market that is used."""

SYSTEM_NAMESPACE: Final = "walras-system"
"""Namespace of the Leases, unless another is configured."""

OPERATOR: Final = "walras-operator"
"""Name of the operator: its program, its Lease unless another is configured, its field manager,
and the source of its Events."""

AGENT: Final = "walras-agent"
"""Name of the node agent's program, and prefix of the names of agents' Leases."""

LEASE_LABEL: Final = f"{GROUP}/lease"
"""Label of a Lease: whose it is."""

AGENT_LEASE: Final = "agent"
"""Value of `LEASE_LABEL` on the Lease by which an agent proves that it is alive."""

AGENT_LEASES: Final = f"{LEASE_LABEL}={AGENT_LEASE}"
"""Label selector of all agents' Leases."""

MANAGED_BY_LABEL: Final = "app.kubernetes.io/managed-by"
"""Label of an object: the program that manages it."""

MARKET_JOB_LABEL: Final = f"{GROUP}/market-job"
"""Label of a SpeedupProfile that the operator created: name of the MarketJob that it is for."""

JOB_LABEL: Final = f"{GROUP}/job"
"""Label of a workload or its pods: they take part in the market, unless its value is ``false``."""

ENTITLEMENT_LABEL: Final = f"{GROUP}/entitlement"
"""Label of a namespace: the entitlement that its labelled workloads draw on."""

JOB_SETTINGS: Final = tuple(
    f"{GROUP}/{name}"
    for name in (
        "deadline",
        "entitlement",
        "max-cores",
        "memory",
        "min-cores",
        "parallel-fraction",
        "program",
        "progress-file",
        "progress-metric",
        "progress-path",
        "progress-port",
        "progress-total",
        "work",
    )
)
"""Annotations of a labelled workload or its pods: fields of the MarketJob that is made for it."""

Mode = Literal["off", "observe", "enforce"]
"""What becomes of plans, the strictest first: none are made, they are observed, or enforced."""

MODE_LABEL: Final = f"{GROUP}/mode"
"""Label of a node, or of a namespace: the `Mode` that it has at most."""

SOCKETS_LABEL: Final = f"{GROUP}/sockets"
"""Label of a node: its number of sockets, used instead of the number that its agent reports."""

COLOCATION_GATE: Final = f"{GROUP}/colocation"
"""Scheduling gate, or scheduler name, of pods that wait to be placed in pairs."""

LOCAL_RUN_LABEL: Final = f"{GROUP}/local-run"
"""Label of the one Node in the record of a local run."""

LEDGER_LABEL: Final = f"{GROUP}/ledger"
"""Label of ConfigMaps with parts of the ledger of credits."""

HISTORY_LABEL: Final = f"{GROUP}/history"
"""Label of ConfigMaps with parts of the history: ``samples``, or ``accounts``."""

HISTORY_START_LABEL: Final = f"{GROUP}/history-start"
"""Label of these ConfigMaps: start of the time that the part is about, in seconds since 1970."""

HISTORY_THROUGH_ANNOTATION: Final = f"{GROUP}/history-through"
"""Annotation of accounts: time of the last sample in their sums, in seconds since 1970."""

PARTNER_ANNOTATION: Final = f"{GROUP}/colocated-with"
"""Annotation of a pod that Walras has placed: UID of its partner; empty if it has none."""

APPLIED_SPEC_ANNOTATION: Final = f"{GROUP}/applied-spec"
"""Annotation of the Market: the chart's values that were last written to it."""

STATIC_POD_ANNOTATION: Final = "kubernetes.io/config.hash"
"""Annotation of the mirror of a static pod."""


def agent_lease(node: str) -> str:
    """Return the name of the Lease of a node's agent."""
    return f"{AGENT}-{node}"


def history_part(place: int) -> str:
    """Return the name of the ConfigMap at a place of the ring of samples."""
    return f"walras-history-{place:02d}"


def accounts_part(place: int) -> str:
    """Return the name of the ConfigMap at a place of the ring of days of accounts."""
    return f"walras-accounts-{place:03d}"


MOST_REPEATS: Final = 64
"""Run times that a SpeedupProfile has at one core count and one data size."""
