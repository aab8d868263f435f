"""The CustomResourceDefinitions of all kinds, made from their models (pure).

They install on Kubernetes 1.20 and later. Rules (``x-kubernetes-validations``) count from 1.25;
before, the operator alone finds what they would refuse, and says so in a condition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from walras.resources.contract import API_VERSION, GROUP, NAMESPACED_KINDS, PLURALS, VERSION
from walras.resources.entitlement import EntitlementStatus
from walras.resources.kinds import Entitlement, Market, MarketJob, SpeedupProfile
from walras.resources.market import MarketStatus
from walras.resources.market_job import MarketJobStatus
from walras.resources.node_allocation import NodeAllocation, NodeAllocationStatus
from walras.resources.schema import described, spec_schema, status_schema
from walras.resources.speedup_profile import SpeedupProfileStatus

if TYPE_CHECKING:
    from walras.resources.model import Model, Resource
    from walras.resources.status import Status

CATEGORY = "walras"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of ``kubectl get``.

    Attributes:
        name: Header of the column.
        path: JSONPath of the field.
        type: Type of the field.
        wide: Whether the column is shown only with ``-o wide``.
    """

    name: str
    path: str
    type: Literal["string", "integer", "date"] = "string"
    wide: bool = False


@dataclass(frozen=True, slots=True)
class Definition:
    """The definition of a kind for the API server.

    Attributes:
        model: Model of the kind's objects.
        status: Model of their status.
        short: Short name for ``kubectl get``.
        columns: Columns of ``kubectl get`` between name and age.
    """

    model: type[Resource]
    status: type[Status]
    short: str
    columns: tuple[Column, ...]

    @property
    def kind(self) -> str:
        """Name of the kind, as in documents."""
        return self.model.__name__

    @property
    def plural(self) -> str:
        """Plural name of the resource."""
        return PLURALS[self.kind]

    @property
    def scope(self) -> Literal["Cluster", "Namespaced"]:
        """Whether objects are namespaced or cluster-scoped."""
        return "Namespaced" if self.kind in NAMESPACED_KINDS else "Cluster"


def _condition(name: str, field: str, *, wide: bool = False) -> Column:
    return Column(name, f'.status.conditions[?(@.type=="Ready")].{field}', wide=wide)


_READY = (_condition("Ready", "status"), _condition("Message", "message", wide=True))

DEFINITIONS = (
    Definition(
        Entitlement,
        EntitlementStatus,
        "ent",
        (
            Column("Shares", ".spec.shares", "integer"),
            Column("Parent", ".spec.parent"),
            Column("Entitled", ".status.cores.entitled"),
            Column("Cores", ".status.cores.allocated"),
            Column("Utility", ".status.utility.now"),
            Column("At Entitlement", ".status.utility.atEntitlement"),
            Column("Memory", ".status.memory.allocated", wide=True),
            Column("Credits", ".status.credits.balance", wide=True),
            *_READY,
        ),
    ),
    Definition(
        MarketJob,
        MarketJobStatus,
        "mj",
        (
            Column("Entitlement", ".spec.entitlement"),
            Column("Pods", ".status.counts.total", "integer"),
            Column("Cores", ".status.cores"),
            Column("Speedup", ".status.speedup"),
            Column("F", ".status.profile.parallelFraction"),
            Column("Source", ".status.profile.source", wide=True),
            Column("Spend", ".status.spend", wide=True),
            *_READY,
        ),
    ),
    Definition(
        SpeedupProfile,
        SpeedupProfileStatus,
        "sp",
        (
            Column("F", ".status.parallelFraction"),
            Column("Source", ".status.source"),
            Column("Variance", ".status.variance", wide=True),
            Column("GB/s", ".status.memoryBandwidth", wide=True),
            *_READY,
        ),
    ),
    Definition(
        NodeAllocation,
        NodeAllocationStatus,
        "na",
        (
            Column("Mode", ".spec.mode"),
            Column("Epoch", ".spec.epoch", "integer"),
            Column("Enforced", ".status.enforcedEpoch", "integer"),
            Column("CPUs", ".status.topology.cpus", wide=True),
            Column("Shared", ".status.sharedCpus", wide=True),
            *_READY,
        ),
    ),
    Definition(
        Market,
        MarketStatus,
        "mkt",
        (
            Column("Mode", ".spec.mode"),
            Column("Cores", ".spec.cores.mechanism"),
            Column("Memory", ".spec.memory.mechanism"),
            Column("Epoch", ".status.epoch.number", "integer"),
            Column("Nodes", ".status.size.nodes", "integer"),
            Column("Pods", ".status.size.pods", "integer"),
            Column("Progress", ".status.scores.systemProgress"),
            Column("Proportional", ".status.scores.proportionalProgress", wide=True),
            *_READY,
        ),
    ),
)


def definition_document(definition: Definition) -> dict[str, Any]:
    """Return the CustomResourceDefinition of a kind."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{definition.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": definition.scope,
            "names": {
                "kind": definition.kind,
                "listKind": f"{definition.kind}List",
                "plural": definition.plural,
                "singular": definition.kind.lower(),
                "shortNames": [definition.short],
                "categories": [CATEGORY],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [*map(_column, definition.columns), _AGE],
                    "schema": {"openAPIV3Schema": _schema(definition)},
                }
            ],
        },
    }


_AGE = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


def _column(column: Column) -> dict[str, Any]:
    made = {"name": column.name, "type": column.type, "jsonPath": column.path}
    return made | ({"priority": 1} if column.wide else {})


def _schema(definition: Definition) -> dict[str, Any]:
    field = definition.model.model_fields["spec"]
    required = field.is_required()
    spec = spec_schema(cast("type[Model]", field.annotation)) | (
        {} if required else {"default": {}}
    )
    return {
        "type": "object",
        "description": described(definition.model)[0],
        "properties": {
            "apiVersion": {"type": "string", "description": API_VERSION},
            "kind": {"type": "string", "description": definition.kind},
            "metadata": {"type": "object"},
            "spec": spec if required else spec | {"default": {}},
            "status": status_schema(definition.status),
        },
        **({"required": ["spec"]} if required else {}),
    }
