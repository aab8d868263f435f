"""Pure: the answers of the API, from a state, by the functions of ``walras top`` and ``explain``.

A `Views` belongs to one state. It computes a view when it is first asked for, and keeps it. Rows of
jobs and nodes that did not change are taken over from the views of the state before.
"""

from __future__ import annotations

import heapq
import operator
from collections import Counter
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from walras.market.snapshot import CoreMechanism
from walras_api.market import CoresPolicy
from walras_cli.cluster.explain.pages import (
    RIGHT_TO_JOBS,
    RIGHT_TO_NODES,
    not_found,
    not_visible,
)
from walras_dashboard.curve import curve_of
from walras_dashboard.job_query import in_order, matches
from walras_dashboard.log_links import address
from walras_dashboard.models import (
    JobDetail,
    JobPage,
    Lending,
    Obligation,
    Overview,
    ShortPods,
    Totals,
    UserDetail,
    WithoutWalras,
)
from walras_dashboard.node_detail import node_detail
from walras_dashboard.rows import loans_of, memory_for_pods, node_summary, user_summary
from walras_service.times import rfc3339
from walras_view.explain.job import explain_job
from walras_view.explain.lending import partners_of_each, purchases_of
from walras_view.explain.node import explain_node
from walras_view.explain.pools import explain_predictions
from walras_view.explain.short_pods import short_pods
from walras_view.explain.user import explain_user, with_all_below
from walras_view.facts import RIGHT_TO_ENTITLEMENTS
from walras_view.figures import total
from walras_view.notes import EPOCHS, headline_of, remarks_of, waiting_in_queues, warnings_of
from walras_view.rows.jobs import JobRow, job_row
from walras_view.rows.nodes import node_row, prices_of
from walras_view.rows.users import user_rows
from walras_view.sentences.first_look import (
    change_sentences,
    cluster_sentence,
    loan_sentences,
    meaning_of_columns,
    result_sentences,
    use_sentence,
)
from walras_view.sentences.job import auction_weights, one_more_sentences
from walras_view.sentences.pools import prediction_sentence
from walras_view.sentences.user import account_rows, user_sentences
from walras_view.text import natural

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from walras_api.cluster import Pod
    from walras_dashboard.job_query import JobQuery
    from walras_dashboard.node_models import NodeDetail
    from walras_dashboard.state import MarketState, Moved
    from walras_service.failures import Failure
    from walras_view.explain.lending import Partner, Purchases
    from walras_view.explain.short_pods import ShortPod
    from walras_view.explain.user import Quantum
    from walras_view.facts import Facts
    from walras_view.first_look import FirstLook
    from walras_view.rows.nodes import NodeRow
    from walras_view.rows.users import UserRow

MOST_SHORT = 20
MOST_CHANGES = 8

MECHANISMS: tuple[str, ...] = get_args(CoreMechanism)


class _Kept(NamedTuple):
    """A row, and what it depends on."""

    on: tuple[object, ...]
    row: Any

    def holds_for(self, on: tuple[object, ...]) -> bool:
        return len(on) == len(self.on) and all(map(operator.is_, on, self.on))


class Views:
    """The answers for one state.

    Args:
        state: The state.
        before: Views of an earlier state, whose rows are taken over where nothing changed.
    """

    def __init__(self, state: MarketState, before: Views | None = None) -> None:
        self.state = state
        self.facts: Facts = state.facts
        self._jobs: dict[tuple[str, str], _Kept] = {} if before is None else before._jobs
        self._nodes: dict[str, _Kept] = {} if before is None else before._nodes

    @cached_property
    def job_rows(self) -> tuple[JobRow, ...]:
        """Rows of all jobs by namespace and name."""
        facts, kept = self.facts, {}
        # What is used depends on the Market's unit, and on what agents report of its nodes.
        reports = {name: each.status for name, each in facts.allocations.items()}
        for key in sorted(facts.jobs, key=lambda key: [natural(each) for each in key]):
            job = facts.jobs[key]
            on = (job, facts.use, *(reports.get(pod.node or "") for pod in job.status.pods))
            unit = None if facts.market is None else facts.market.spec.get("cores")
            before = self._jobs.get(key)
            depends = (*on, unit)
            if before is not None and before.holds_for(depends):
                kept[key] = before
            else:
                kept[key] = _Kept(depends, job_row(facts, job))
        self._jobs = kept
        return tuple(each.row for each in kept.values())

    @cached_property
    def node_rows(self) -> tuple[NodeRow, ...]:
        """Rows of all nodes by name."""
        facts, kept = self.facts, {}
        prices = prices_of(facts)
        for name in sorted({*facts.nodes, *prices, *facts.allocations}, key=natural):
            sells = prices.get(name)
            alive = facts.leases.agents.get(name) if facts.leases.known else facts.leases.known
            on = (facts.nodes.get(name), facts.allocations.get(name), sells, facts.use, alive)
            before = self._nodes.get(name)
            if before is not None and before.holds_for(on):
                kept[name] = before
            else:
                kept[name] = _Kept(on, node_row(facts, name, sells))
        self._nodes = kept
        return tuple(each.row for each in kept.values())

    @cached_property
    def user_rows(self) -> tuple[UserRow, ...]:
        """Rows of all Entitlements, children after their parents, siblings by name."""
        return tuple(user_rows(self.facts, lambda row: natural(row.name)))

    @cached_property
    def partners(self) -> Mapping[str, tuple[Partner, ...]] | None:
        """Return lenders and borrowers of each Entitlement; None if they are unknown."""
        if (bought := self._purchases) is None:
            return None
        groups = {name: with_all_below(self.facts, name) for name in self.facts.entitlements}
        return partners_of_each(bought, groups)

    @cached_property
    def _purchases(self) -> Purchases | None:
        return purchases_of(self.facts)

    def _traded(self, name: str) -> tuple[Partner, ...] | None:
        """Return whom an Entitlement lends to and borrows from; None unless all of it is known."""
        if self.partners is None or self._purchases is None or self._purchases.unknown:
            return None
        return self.partners.get(name, ())

    @cached_property
    def lending(self) -> list[Lending]:
        """Loans among Entitlements that have jobs of their own, which are not told of parents."""
        bought = self._purchases
        own = {} if bought is None else {name: {name} for name in bought.users}
        partners = {} if bought is None else partners_of_each(bought, own)
        with_credits = [n for n, each in self.facts.entitlements.items() if each.status.credits]
        return loans_of(self.facts, partners, with_credits)

    @property
    def notes(self) -> list[str]:
        """Return lines about figures that are left out."""
        return [*waiting_in_queues(self.facts), *remarks_of(self.facts), *self.state.notes]

    @cached_property
    def overview(self) -> Overview:
        """The whole cluster."""
        facts, bought = self.facts, self._purchases
        market = facts.market
        spec = {} if market is None else market.spec
        cores = spec.get("cores") or {}
        epoch = None if market is None else market.status.epoch
        return Overview(
            time=rfc3339(facts.now),
            revision=self.state.revision,
            source=self.state.origin,
            namespace=facts.namespace,
            notes=self.notes,
            warnings=list(warnings_of(facts)) if self.state.look is None else [],
            headline=headline_of(facts),
            mechanism=_known(cores.get("mechanism"), CoresPolicy().mechanism),
            memory_mechanism=(market and market.status.memory_mechanism) or "",
            mechanisms=list(MECHANISMS),
            core_unit="thread" if cores.get("unit") == "thread" else "core",
            epoch=None if epoch is None else epoch.number % EPOCHS,
            totals=self._totals,
            users=[user_summary(facts, row, self._traded(row.name)) for row in self.user_rows],
            nodes=[node_summary(facts, row, self._starving[row.name]) for row in self.node_rows],
            lending=self.lending,
            lending_unknown=None if bought is None else bought.unknown,
            short=self._short,
            changes=self._changes,
            predictions=[]
            if market is None
            else [prediction_sentence(each) for each in explain_predictions(market.status)],
            without_walras=None if self.state.look is None else _without_walras(self.state.look),
        )

    @cached_property
    def _short_pods(self) -> tuple[ShortPod, ...]:
        return short_pods(self.facts)

    @cached_property
    def _starving(self) -> Counter[str]:
        return Counter(each.node for each in self._short_pods if each.starves)

    @property
    def _short(self) -> ShortPods:
        pods = self._short_pods
        counts = (each.status.counts for each in self.facts.jobs.values())
        return ShortPods(
            starving=sum(each.starves for each in pods),
            below_request=sum(each.below_request for each in pods),
            unlisted=sum(each.unlisted for each in counts if each is not None),
            first=list(pods[:MOST_SHORT]),
        )

    @property
    def _changes(self) -> list[Moved]:
        moved = heapq.merge(
            self.state.events,
            *self.state.moved.values(),
            key=lambda each: each.time,
            reverse=True,
        )
        return list(islice(moved, MOST_CHANGES))

    @cached_property
    def overview_json(self) -> str:
        """The whole cluster as JSON."""
        return self.overview.model_dump_json(by_alias=True)

    def has_node(self, name: str) -> bool:
        """Say whether a node is among the facts."""
        return name in self.facts.nodes or name in self.facts.allocations

    def absent(self, kind: Literal["job", "user", "node"], name: str) -> Failure:
        """Return why an object is not among the facts: it does not exist, or may not be seen."""
        what, right, names, table = {
            "job": (
                "MarketJob",
                RIGHT_TO_JOBS,
                [f"{each}/{job}" for each, job in self.facts.jobs],
                "jobs -A",
            ),
            "user": ("Entitlement", RIGHT_TO_ENTITLEMENTS, [*self.facts.entitlements], "users"),
            "node": (
                "Node",
                RIGHT_TO_NODES,
                [*self.facts.nodes, *self.facts.allocations],
                "nodes",
            ),
        }[kind]
        if any(each.startswith(right) for each in self.facts.withheld):
            return not_visible(self.state.origin.name, f"{what} {name}", right)
        return not_found(f"{what} {name}", name, names, (), table)

    @cached_property
    def _totals(self) -> Totals:
        rows = self.node_rows
        cores, sold = total(row.cores for row in rows), total(row.sold for row in rows)
        memory = (memory_for_pods(self.facts, row.name) for row in rows)
        return Totals(
            nodes=len(rows),
            users=sum(each.status.cores is not None for each in self.facts.entitlements.values()),
            jobs=len(self.facts.jobs),
            pods=sum(row.pods for row in rows),
            cores=cores,
            sold=sold,
            free=None if cores is None else max(cores - (sold or 0.0), 0.0),
            memory=total(memory),
            memory_granted=total(row.memory for row in rows),
        )

    def jobs(self, query: JobQuery) -> JobPage:
        """Return a part of the jobs."""
        rows: Sequence[JobRow] = [row for row in self.job_rows if matches(row, query)]
        if query.sort:
            rows = in_order(rows, query.sort)
        part = rows[query.offset : query.offset + query.limit]
        return JobPage(revision=self.state.revision, total=len(rows), jobs=list(part))

    def job(self, namespace: str, name: str, logs: str = "") -> JobDetail | None:
        """Return everything about a job; None if it is not among the facts.

        Args:
            namespace: Namespace of the job.
            name: Name of the job.
            logs: Template of the addresses of pods' logs (`log_links.address`); empty for none.
        """
        facts, key = self.facts, (namespace, name)
        job = facts.jobs.get(key)
        if job is None:
            return None
        explanation, row = explain_job(facts, job), job_row(facts, job)
        profile = job.status.profile
        named = job.spec.get("profile") or job.spec.get("program") or name
        used = named if profile is None or profile.name is None else profile.name
        return JobDetail(
            row=row,
            explanation=explanation,
            weights_text=None
            if explanation.weights is None
            else auction_weights(explanation.weights),
            one_more_texts=["; ".join(one_more_sentences(each)) for each in explanation.one_more],
            curve=curve_of(
                explanation.parallel_fraction,
                [pod.held for pod in explanation.pods if pod.held is not None],
                self.state.profiles.get((namespace, str(used))),
            ),
            logs=[address(logs, namespace, pod.name) for pod in explanation.pods] if logs else [],
            notes=self.notes,
        )

    def user(self, name: str) -> UserDetail | None:
        """Return everything about an Entitlement; None if it is not among the facts."""
        facts = self.facts
        if name not in facts.entitlements:
            return None
        explanation = explain_user(facts, name, self.user_rows, self.job_rows)
        partners = self.partners
        mine = () if partners is None else partners.get(name, ())
        return UserDetail(
            row=user_summary(facts, explanation.user, self._traded(name)),
            children=sorted(
                (
                    each
                    for each, child in facts.entitlements.items()
                    if child.spec.get("parent") == name
                ),
                key=natural,
            ),
            jobs=explanation.jobs,
            account=[
                Obligation(of=of, owed=owed, effect=effect)
                for of, owed, effect in account_rows(explanation)
            ],
            quantum=explanation.quantum,
            lending=self._loans_of(name, mine, explanation.quantum),
            text=user_sentences(explanation),
            faults=explanation.faults,
            notes=self.notes,
        )

    def _loans_of(
        self, name: str, partners: Sequence[Partner], quantum: Quantum | None
    ) -> list[Lending]:
        """Return what an Entitlement lends, and then what it borrows."""
        lent = loans_of(self.facts, {name: partners}, [name])
        cores = {each.name: -each.cores for each in partners if each.cores < 0}
        memory = {} if quantum is None else {each.name: each.memory for each in quantum.borrowed}
        borrowed = [
            Lending(lender=other, borrower=name, cores=cores.get(other), memory=memory.get(other))
            for other in {**cores, **memory}
        ]
        return [*lent, *sorted(borrowed, key=lambda each: (-(each.cores or 0.0), each.lender))]

    def node(self, name: str, pods: Sequence[Pod] | None) -> NodeDetail | None:
        """Return everything about a node; None if it is not among the facts.

        Args:
            name: Name of the node.
            pods: Pods that run on it; None if they may not be seen.
        """
        facts = self.facts
        if not self.has_node(name):
            return None
        explanation = explain_node(facts, name, pods)
        row = node_summary(facts, explanation.node, self._starving[name])
        return node_detail(facts, explanation, row, self.state.moved.get(name, ()), self.notes)


def _without_walras(look: FirstLook) -> WithoutWalras:
    return WithoutWalras(
        unit=look.unit,
        result=[cluster_sentence(look), use_sentence(look), *result_sentences(look)],
        users=look.users,
        columns=list(meaning_of_columns(look)),
        loans=list(loan_sentences(look)),
        changes=change_sentences(look),
        next=look.next,
    )


def _known(given: object, default: str) -> str:
    return given if isinstance(given, str) and given else default
