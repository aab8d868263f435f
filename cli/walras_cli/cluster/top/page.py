"""The page that ``walras top`` shows, as tables for people and as rows for scripts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from rich.table import Table
from rich.text import Text

from walras_cli.cluster.asking import facts_of
from walras_cli.cluster.connection import require_namespace
from walras_cli.cluster.top import tables
from walras_service.times import rfc3339
from walras_view.documents import plain
from walras_view.notes import headline_of, remarks_of, waiting_in_queues, warnings_of
from walras_view.rows.jobs import JobRow, job_rows
from walras_view.rows.nodes import NodeRow, node_rows
from walras_view.rows.users import UserRow, user_rows
from walras_view.text import natural

if TYPE_CHECKING:
    from rich.console import RenderableType

    from walras_cli.cluster.asking import Wanted
    from walras_cli.cluster.connection import Cluster
    from walras_view.facts import Facts

What = Literal["all", "users", "jobs", "nodes"]
Sort = Literal["name", "entitled", "held", "used", "price", "utility"]

SUMMARY = 10
"""Rows of each table where all three are shown."""

_WANTED: dict[What, tuple[Wanted, ...]] = {
    "users": ("entitlements", "jobs", "allocations", "market", "leases", "use"),
    "jobs": ("jobs", "allocations", "market", "leases", "use"),
    "nodes": ("allocations", "nodes", "market", "leases", "use"),
    "all": ("entitlements", "jobs", "allocations", "nodes", "market", "leases", "use"),
}
_SELECTED: dict[What, Wanted] = {"users": "entitlements", "jobs": "jobs", "nodes": "nodes"}


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The rows of a table to show, and their order.

    Attributes:
        what: Tables to show: users, jobs, nodes, or the first rows of all three.
        namespace: Namespace of jobs; empty for all.
        selector: Label selector; empty for all.
        sort_by: Figure by which rows are sorted, largest first; ``name`` sorts by name.
    """

    what: What
    namespace: str
    selector: str = ""
    sort_by: Sort = "name"

    def page(self, cluster: Cluster) -> TopPage:
        """Ask a cluster. What users use is that of their jobs in all namespaces.

        Raises:
            BadInput: there is no such namespace.
            Failure: nothing may be seen.
            ApiError: the cluster cannot be asked.
        """
        namespace = self.namespace if self.what == "jobs" else ""
        selectors = {_SELECTED[self.what]: self.selector} if self.selector else {}
        facts = facts_of(cluster, _WANTED[self.what], namespace, selectors)
        page = TopPage.of(facts, self)
        if self.namespace and page.jobs == ():
            require_namespace(cluster, self.namespace)
        return page


@dataclass(frozen=True, slots=True)
class TopPage:
    """The rows of a page; None for tables that were not requested."""

    options: TableOptions
    facts: Facts
    users: tuple[UserRow, ...] | None
    jobs: tuple[JobRow, ...] | None
    nodes: tuple[NodeRow, ...] | None

    @classmethod
    def of(cls, facts: Facts, options: TableOptions) -> TopPage:
        """Choose the rows."""
        what, namespace, by = options.what, options.namespace, options.sort_by
        users = user_rows(facts, lambda row: _order(_of_user(row, by), row.name))
        jobs = job_rows(facts, namespace)
        nodes = node_rows(facts, selected=bool(options.selector))
        jobs.sort(key=lambda row: _order(_of_job(row, by), row.namespace, row.name))
        nodes.sort(key=lambda row: _order(_of_node(row, by), row.name))
        return cls(
            options,
            facts,
            tuple(users) if what in {"all", "users"} else None,
            tuple(jobs) if what in {"all", "jobs"} else None,
            tuple(nodes) if what in {"all", "nodes"} else None,
        )

    def document(self) -> dict[str, Any]:
        """Return all rows, whatever a table would leave out."""
        tables_ = {"users": self.users, "jobs": self.jobs, "nodes": self.nodes}
        return {
            "time": rfc3339(self.facts.now),
            "market": headline_of(self.facts),
            **{
                name: [plain(row) for row in rows]
                for name, rows in tables_.items()
                if rows is not None
            },
            "warnings": list(warnings_of(self.facts)),
            "notes": self._notes,
        }

    def render(self, *, wide: bool) -> list[RenderableType]:
        """Return tables below what makes them doubtful, and above what is left out."""
        parts: list[RenderableType] = [
            Text(line, style="bold red") for line in warnings_of(self.facts)
        ]
        if line := headline_of(self.facts):
            parts.append(Text(line, style="bold"))
        for part in self._tables(wide=wide):
            parts += [*([Text()] if parts and isinstance(part, Table) else []), part]
        parts += [Text(f"note: {line}", style="dim") for line in self._notes]
        return parts

    @property
    def _notes(self) -> list[str]:
        return [*waiting_in_queues(self.facts), *remarks_of(self.facts)]

    def _tables(self, *, wide: bool) -> list[RenderableType]:
        most = SUMMARY if self.options.what == "all" else None
        parts: list[RenderableType] = []
        if self.users:
            parts.append(tables.users(self.users, most, wide=wide))
        elif self.users is not None and self.facts.all_entitlements:
            parts.append(Text("There are no Entitlements; create one for each user or group."))
        namespace, elsewhere = self.options.namespace, len(self.facts.jobs) - len(self.jobs or ())
        if self.jobs:
            parts.append(tables.jobs(self.jobs, most, wide=wide, namespace=namespace))
            if elsewhere:
                parts.append(
                    Text(f"and {elsewhere} in other namespaces; -A shows them", style="dim")
                )
        elif self.jobs is not None:
            parts += [Text(), Text(_no_jobs(namespace, elsewhere))]
        if self.nodes:
            parts.append(tables.nodes(self.nodes, most, wide=wide))
        return parts


def _no_jobs(namespace: str, elsewhere: int) -> str:
    if namespace:
        those = f" the {elsewhere} in others" if elsewhere else " all namespaces"
        return f"There are no MarketJobs in namespace {namespace}; -A shows{those}."
    return "There are no MarketJobs; create one for each job that takes part in the market."


def _order(figure: float | None, *name: str) -> tuple[float, list[Any]]:
    """Return what sorts the largest first, and then by name."""
    return (0.0 if figure is None else -figure, [natural(each) for each in name])


def _of_user(row: UserRow, by: Sort) -> float | None:
    figures: dict[Sort, float | None] = {
        "entitled": row.cores.entitled,
        "held": row.cores.held,
        "used": row.cores.used,
        "utility": row.utility,
    }
    return figures.get(by)


def _of_job(row: JobRow, by: Sort) -> float | None:
    figures: dict[Sort, float | None] = {
        "held": row.held,
        "used": row.used,
        "price": row.price,
        "utility": row.speedup,
    }
    return figures.get(by)


def _of_node(row: NodeRow, by: Sort) -> float | None:
    figures: dict[Sort, float | None] = {
        "entitled": row.cores,
        "held": row.sold,
        "used": row.used,
        "price": row.price,
    }
    return figures.get(by)
