"""The CustomResourceDefinitions of all kinds, generated from their models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from walras_api.contract import API_VERSION, GROUP, NAMESPACED_KINDS, PLURALS, VERSION
from walras_api.entitlement import EntitlementStatus
from walras_api.kinds import EntitlementObject, Market, MarketJob, SpeedupProfile
from walras_api.market_job_status import MarketJobStatus
from walras_api.market_status import MarketStatus
from walras_api.node_allocation import NodeAllocation
from walras_api.node_allocation_status import NodeAllocationStatus
from walras_api.schema import described, spec_schema, status_schema
from walras_api.speedup_profile_status import SpeedupProfileStatus

if TYPE_CHECKING:
    from walras_api.model import Model, Resource
    from walras_api.status import Status

CATEGORY = "walras"


@dataclass(frozen=True, slots=True)
class PrinterColumn:
    """A column of ``kubectl get``: header, JSONPath, type, and whether it needs ``-o wide``."""

    name: str
    path: str
    type: Literal["string", "integer", "date"] = "string"
    wide: bool = False


@dataclass(frozen=True, slots=True)
class Definition:
    """The definition of a kind: its models, short name, and columns in ``kubectl get``."""

    model: type[Resource]
    status: type[Status]
    short: str
    columns: tuple[PrinterColumn, ...]

    @property
    def kind(self) -> str:
        """Name of the kind, as in documents."""
        (name,) = get_args(self.model.model_fields["kind"].annotation)
        return str(name)

    @property
    def plural(self) -> str:
        """Plural name of the resource."""
        return PLURALS[self.kind]

    @property
    def scope(self) -> Literal["Cluster", "Namespaced"]:
        """Whether objects are namespaced or cluster-scoped."""
        return "Namespaced" if self.kind in NAMESPACED_KINDS else "Cluster"


def _condition(name: str, field: str, *, wide: bool = False) -> PrinterColumn:
    return PrinterColumn(name, f'.status.conditions[?(@.type=="Ready")].{field}', wide=wide)


_READY = (_condition("Ready", "status"), _condition("Message", "message", wide=True))

DEFINITIONS = (
    Definition(
        EntitlementObject,
        EntitlementStatus,
        "ent",
        (
            PrinterColumn("Shares", ".spec.shares", "integer"),
            PrinterColumn("Parent", ".spec.parent"),
            PrinterColumn("Entitled", ".status.cores.entitled"),
            PrinterColumn("Cores", ".status.cores.bought"),
            PrinterColumn("Utility", ".status.utility.now"),
            PrinterColumn("At Entitlement", ".status.utility.atEntitlement"),
            PrinterColumn("Memory", ".status.memory.granted", wide=True),
            PrinterColumn("Credits", ".status.credits.balance", wide=True),
            *_READY,
        ),
    ),
    Definition(
        MarketJob,
        MarketJobStatus,
        "mj",
        (
            PrinterColumn("Entitlement", ".spec.entitlement"),
            PrinterColumn("Workload", ".status.workload"),
            PrinterColumn("Pods", ".status.counts.total", "integer"),
            PrinterColumn("Cores", ".status.bought"),
            PrinterColumn("Speedup", ".status.speedup"),
            PrinterColumn("F", ".status.profile.parallelFraction"),
            PrinterColumn("Source", ".status.profile.source", wide=True),
            PrinterColumn("Spend", ".status.spend", wide=True),
            *_READY,
        ),
    ),
    Definition(
        SpeedupProfile,
        SpeedupProfileStatus,
        "sp",
        (
            PrinterColumn("F", ".status.parallelFraction"),
            PrinterColumn("Source", ".status.source"),
            PrinterColumn("Variance", ".status.variance", wide=True),
            PrinterColumn("GB/s", ".status.memoryBandwidth", wide=True),
            *_READY,
        ),
    ),
    Definition(
        NodeAllocation,
        NodeAllocationStatus,
        "na",
        (
            PrinterColumn("Mode", ".spec.mode"),
            PrinterColumn("Epoch", ".spec.epoch", "integer"),
            PrinterColumn("Enforced", ".status.enforcedEpoch", "integer"),
            PrinterColumn("CPUs", ".status.topology.cpus", wide=True),
            PrinterColumn("Shared", ".status.sharedCpus", wide=True),
            *_READY,
        ),
    ),
    Definition(
        Market,
        MarketStatus,
        "mkt",
        (
            PrinterColumn("Mode", ".spec.mode"),
            PrinterColumn("Cores", ".spec.cores.mechanism"),
            PrinterColumn("Memory", ".spec.memory.mechanism"),
            PrinterColumn("Epoch", ".status.epoch.number", "integer"),
            PrinterColumn("Nodes", ".status.size.nodes", "integer"),
            PrinterColumn("Pods", ".status.size.pods", "integer"),
            PrinterColumn("Progress", ".status.scores.systemProgress"),
            PrinterColumn("Proportional", ".status.scores.proportionalProgress", wide=True),
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


def _column(column: PrinterColumn) -> dict[str, Any]:
    made = {"name": column.name, "type": column.type, "jsonPath": column.path}
    return made | ({"priority": 1} if column.wide else {})


def _schema(definition: Definition) -> dict[str, Any]:
    field = definition.model.model_fields["spec"]
    required = field.is_required()
    spec = spec_schema(cast("type[Model]", field.annotation))
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
