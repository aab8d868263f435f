"""Pure: choose the Entitlements that are made, changed or deleted to follow quotas.

Shares are thousandths of CPUs. A cohort of Kueue is the parent of its queues, under a name of its
own, because a ClusterQueue may have the same. Only Entitlements with the operator's label are
touched; nothing is deleted while not all quotas are known.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from walras_api.contract import API_VERSION, MANAGED_BY_LABEL, OPERATOR
from walras_api.entitlement import MOST_NAMESPACES
from walras_api.fields import LONGEST_NAME, MOST_INT32
from walras_operator.decide.conditions import (
    ConditionState,
    Problem,
    fails,
    holds,
    summarize,
)
from walras_operator.decide.entitling.borrowing import worths
from walras_operator.decide.world import AutomaticWrite, Reference, reference_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from walras_api.kinds import EntitlementObject, EntitlementSpec
    from walras_operator.decide.known_quotas import Quotas
    from walras_operator.decide.world import Document, World

CONDITION = "QuotasFollowed"
"""Condition of a Market whose Entitlements follow quotas."""

_SAID_BY = {"Kueue": "ClusterQueues and their cohorts", "ResourceQuota": "ResourceQuotas"}
_COHORT = "cohort-"
_DIGITS = 10


class _Claim(NamedTuple):
    """What an Entitlement is to say.

    Attributes:
        shares: Its shares.
        memory_shares: Its shares of memory, of which Kueue's admission of CPUs lends nothing.
        parent: Its parent; None for none.
        namespaces: Namespaces that may draw on it; None if only its children may.
    """

    shares: int
    memory_shares: int
    parent: str | None
    namespaces: tuple[str, ...] | None

    def is_said_by(self, spec: EntitlementSpec) -> bool:
        """Return whether a spec says this and nothing else."""
        here = None if spec.namespaces is None else tuple(spec.namespaces)
        shares = spec.shares, spec.memory_share or spec.shares, spec.parent, here
        return shares == self and spec.namespace_selector is None and spec.max_nodes is None

    def spec(self) -> Document:
        """Return it as the spec of an Entitlement."""
        memory = None if self.memory_shares == self.shares else self.memory_shares
        here = None if self.namespaces is None else list(self.namespaces)
        said = {"parent": self.parent, "namespaces": here, "memoryShare": memory}
        return {
            "shares": self.shares,
            **{name: value for name, value in said.items() if value is not None},
        }


@dataclass(frozen=True, slots=True)
class FollowedQuotas:
    """What is done so that Entitlements follow quotas.

    Attributes:
        writes: Entitlements to create, change or delete, parents before children.
        state: State of the Market's condition; None if Entitlements follow nothing.
    """

    writes: tuple[AutomaticWrite, ...] = ()
    state: ConditionState | None = None


def follow_quotas(world: World) -> FollowedQuotas:
    """Return the Entitlements to write, and what the Market says of them."""
    quotas = world.quotas
    if quotas is None:
        return FollowedQuotas()
    if quotas.problem is not None:
        return FollowedQuotas(state=fails(quotas.problem))
    present = {each.metadata.name: each for each in world.objects.entitlements}
    broken = {each.name for each in world.broken if each.kind == "Entitlement"}
    claims = _of_kueue(quotas, world) if quotas.source == "Kueue" else _of_namespaces(quotas)
    writes: list[AutomaticWrite] = []
    taken: list[str] = []
    for name, claim in claims.items():
        entitlement = present.get(name)
        if name in broken or (entitlement is not None and not entitlement.is_automatic):
            taken.append(name)
        elif entitlement is None or not claim.is_said_by(entitlement.spec):
            new = Reference("Entitlement", name)
            writes.append(
                AutomaticWrite(
                    new if entitlement is None else reference_of(entitlement),
                    _document(name, claim),
                )
            )
    writes += (AutomaticWrite(reference_of(each), None) for each in _unfounded(present, claims))
    return FollowedQuotas(tuple(writes), _state(quotas, len(claims), sorted(taken), len(writes)))


def _of_kueue(quotas: Quotas, world: World) -> dict[str, _Claim]:
    """Return the claims of ClusterQueues and of the cohorts above them, parents first."""
    now, nominal = worths(quotas, quotas.set_aside), worths(quotas, {})
    # A parent's own namespaces can no longer draw on it, so a cohort never becomes theirs.
    drawn_on = {
        each.metadata.name
        for each in world.objects.entitlements
        if not each.is_automatic
        and (each.spec.namespaces or each.spec.namespace_selector is not None)
    }
    names = {"": None, **_names_of_cohorts(now.cohorts, drawn_on.union(quotas.cluster_queues))}
    claims = {
        str(names[cohort]): _Claim(
            _shares(worth), _shares(nominal.cohorts[cohort]), names[now.parents[cohort]], None
        )
        for cohort, worth in now.cohorts.items()
    }
    labels = {each.metadata.name: each.metadata.labels for each in world.objects.namespaces}
    for name, queue in quotas.cluster_queues.items():
        admitted = (
            each
            for each in sorted(quotas.namespaces.get(name, ()))
            if each in labels and queue.admits(labels[each])
        )
        here = tuple(islice(admitted, MOST_NAMESPACES))
        claims[name] = _Claim(
            _shares(now.queues[name]), _shares(queue.cpus), names[queue.cohort], here
        )
    return claims


def _of_namespaces(quotas: Quotas) -> dict[str, _Claim]:
    """Return the claims of namespaces with ResourceQuotas."""
    return {
        namespace: _Claim(_shares(cpus), _shares(cpus), None, (namespace,))
        for namespace, cpus in quotas.by_namespace.items()
    }


def _names_of_cohorts(cohorts: Iterable[str], others: Iterable[str]) -> dict[str, str]:
    """Return the names of the Entitlements of cohorts, which no other one of these names has."""
    names, taken = {}, set(others)
    for cohort in sorted(cohorts):
        name = _COHORT + cohort
        while name in taken:
            name = _COHORT + name
        if len(name) > LONGEST_NAME:
            digest = hashlib.sha256(cohort.encode()).hexdigest()[:_DIGITS]
            name = f"{name[: LONGEST_NAME - _DIGITS - 1].rstrip('-.')}-{digest}"
        names[cohort] = name
        taken.add(name)
    return names


def _shares(cpus: int) -> int:
    return min(max(cpus, 1), MOST_INT32)


def _unfounded(
    present: Mapping[str, EntitlementObject], claims: Container[str]
) -> Iterator[EntitlementObject]:
    """Yield the operator's Entitlements that follow nothing any more."""
    for name, each in present.items():
        if each.is_automatic and name not in claims and not each.metadata.deletion_timestamp:
            yield each


def _document(name: str, claim: _Claim) -> Document:
    return {
        "apiVersion": API_VERSION,
        "kind": "Entitlement",
        "metadata": {"name": name, "labels": {MANAGED_BY_LABEL: OPERATOR}},
        "spec": claim.spec(),
    }


def _state(quotas: Quotas, number: int, taken: Sequence[str], unwritten: int) -> ConditionState:
    """Return the state of the condition `CONDITION`.

    Args:
        quotas: The quotas.
        number: Number of Entitlements that follow them.
        taken: Names of Entitlements that somebody else has written.
        unwritten: Number of Entitlements that this decision writes.
    """
    if taken:
        return fails(
            Problem(
                "NameTaken",
                f"somebody has written Entitlements of these names, so they do not follow "
                f"{_SAID_BY[quotas.source]}: {summarize(taken)}; delete them, or label them "
                f"{MANAGED_BY_LABEL}={OPERATOR} to have them overwritten",
            )
        )
    left_out = (
        f"; {quotas.left_out} objects are left out until they change, since there are thousands of "
        f"them in one namespace"
        if quotas.left_out
        else ""
    )
    late = (
        f"; {unwritten} are not yet as these say (if this lasts, the operator's log says why)"
        if unwritten
        else ""
    )
    full = summarize(
        [
            f"LocalQueues of {len(each)} namespaces lead to {name}, on which at most "
            f"{MOST_NAMESPACES} can draw, the first by name"
            for name, each in sorted(quotas.namespaces.items())
            if len(each) > MOST_NAMESPACES and name in quotas.cluster_queues
        ]
    )
    source = _SAID_BY[quotas.source]
    return holds(
        "Followed", f"{number} Entitlements follow {source}{late}{left_out}{full and '; '}{full}"
    )
