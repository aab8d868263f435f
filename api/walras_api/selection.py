"""Selection of pods by MarketJobs, and the one owner of each pod."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from heapq import nsmallest
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from walras_api.cluster import OwnerReference, group_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from walras_api.cluster import Pod
    from walras_api.job_inputs import Name
    from walras_api.kinds import MarketJob


class OwnerKey(NamedTuple):
    """An object that owns others.

    Attributes:
        namespace: Namespace of the object and of what it owns.
        owner: Reference to the object.
    """

    namespace: str
    owner: OwnerReference


Controllers = Mapping[OwnerKey, OwnerReference | None]
"""Controllers of owners of pods; None for owners that have none, or that cannot be read."""

NO_CONTROLLERS: Controllers = MappingProxyType({})

_NO_SELECTORS: Mapping[frozenset[tuple[str, str]], list[int]] = MappingProxyType({})

MOST_LEVELS = 8
"""Owners above one another that are followed."""


MOST_KEPT = 8
"""Jobs that are kept of those that select one pod, and pods of those that one job contests.

The others are only counted: thousands of jobs may each select thousands of pods.
"""


class Overlap(NamedTuple):
    """The pods that a job and others select.

    Attributes:
        pods: Number of these pods.
        first: Positions of the first of them by name, at most `MOST_KEPT`.
    """

    pods: int
    first: tuple[int, ...]


class Selection(NamedTuple):
    """The MarketJobs that own pods.

    Attributes:
        job: Owner of each selected pod that is alive, by the pod's position.
        contested: The first jobs that select the same pod, its owner first, at most `MOST_KEPT`, by
            the pod's position; only for pods that several jobs select.
        overlaps: Pods of each job that others select too, by namespace and name of the job; only
            for jobs that have such pods.
    """

    job: dict[int, MarketJob]
    contested: dict[int, tuple[MarketJob, ...]]
    overlaps: dict[Name, Overlap]


def select(
    jobs: Sequence[MarketJob], pods: Sequence[Pod], controllers: Controllers = NO_CONTROLLERS
) -> Selection:
    """Find the job that owns each pod: of those that select it, the oldest, then the first by name.

    A new job therefore never takes pods from an existing one. Static pods belong to none: only an
    annotation, which any user can set, says which cgroup is theirs.

    Args:
        jobs: MarketJobs of the cluster.
        pods: Pods of the cluster.
        controllers: Controllers of the owners of pods, as far as they are known.
    """
    index = _Index(jobs, controllers)
    selected: dict[int, MarketJob] = {}
    contested: dict[int, tuple[MarketJob, ...]] = {}
    for number, pod in enumerate(pods):
        if not pod.alive or pod.is_static:
            continue
        mine = index.candidates(pod)
        if mine:
            selected[number] = index.ranked[min(mine)]
        if len(mine) > 1 and len(ranks := set(mine)) > 1:
            first = nsmallest(MOST_KEPT, ranks)
            contested[number] = tuple(index.ranked[rank] for rank in first)
    return Selection(selected, contested, _overlaps(index, pods, contested))


def _overlaps(index: _Index, pods: Sequence[Pod], contested: Iterable[int]) -> dict[Name, Overlap]:
    """Return each job's pods that others select too."""
    counts: Counter[int] = Counter()
    first: defaultdict[int, list[int]] = defaultdict(list)
    wanting = set(range(len(index.ranked)))  # ranks of jobs of which too few pods are known
    for number in sorted(contested, key=lambda number: pods[number].metadata.name):
        ranks = set(index.candidates(pods[number]))
        counts.update(ranks)
        for rank in wanting & ranks:
            first[rank].append(number)
            if len(first[rank]) == MOST_KEPT:
                wanting.remove(rank)
    keys = {rank: index.ranked[rank].metadata for rank in counts}
    return {
        (key.namespace, key.name): Overlap(counts[rank], tuple(first[rank]))
        for rank, key in keys.items()
    }


class _Index:
    """An index of jobs by label or owner, so that a pod is not matched against all jobs.

    A job with a label selector is indexed by its rarest label among all selectors, together with
    the jobs that have the same selector.
    """

    def __init__(self, jobs: Sequence[MarketJob], controllers: Controllers) -> None:
        self._controllers = controllers
        self.ranked = sorted(jobs, key=lambda job: (_age(job), job.metadata.name))
        every_wanted = [frozenset(_labels(job)) for job in self.ranked]
        asked = Counter(
            (job.metadata.namespace, *label)
            for job, wanted in zip(self.ranked, every_wanted, strict=True)
            for label in wanted
        )
        self._by_label: dict[
            tuple[str, str, str], defaultdict[frozenset[tuple[str, str]], list[int]]
        ] = {}
        self._by_owner: dict[str, defaultdict[tuple[str, str, str], list[int]]] = {}
        for rank, (job, wanted) in enumerate(zip(self.ranked, every_wanted, strict=True)):
            namespace, target = job.metadata.namespace, job.spec.target_ref
            labels = [(namespace, *label) for label in wanted]
            if labels:
                rarest = min(labels, key=lambda label: (asked[label], label))
                self._by_label.setdefault(rarest, defaultdict(list))[wanted].append(rank)
            elif target is not None:
                key = group_of(target.api_version), target.kind, target.name
                self._by_owner.setdefault(namespace, defaultdict(list))[key].append(rank)

    def candidates(self, pod: Pod) -> list[int]:
        """Return the ranks of the jobs that select a pod, some of them twice."""
        namespace, labels = pod.metadata.namespace, pod.metadata.labels
        ranks_of_jobs: list[int] = []
        for label in labels.items():
            for wanted, ranks in self._by_label.get((namespace, *label), _NO_SELECTORS).items():
                if wanted <= labels.items():
                    ranks_of_jobs += ranks
        if by_owner := self._by_owner.get(namespace):
            for owner in _targets(pod, self._controllers):
                ranks_of_jobs += by_owner.get((owner.group, owner.kind, owner.name), ())
        return ranks_of_jobs


def _age(job: MarketJob) -> tuple[bool, str]:
    """Return a sort key by age; jobs without a creation time come last."""
    created = job.metadata.creation_timestamp
    return not created, created


def _labels(job: MarketJob) -> Iterable[tuple[str, str]]:
    selector = job.spec.selector
    return () if selector is None else selector.match_labels.items()


def owners(pod: Pod, controllers: Controllers) -> Iterator[OwnerReference]:
    """Yield the controller of a pod, its controller, and so on, as far as they are known."""
    references = pod.metadata.owner_references
    owner = next((each for each in references if each.controller), next(iter(references), None))
    for _ in range(MOST_LEVELS):
        if owner is None:
            return
        yield owner
        owner = controllers.get(OwnerKey(pod.metadata.namespace, owner))


def _targets(pod: Pod, controllers: Controllers) -> Iterator[OwnerReference]:
    """Yield whatever a ``targetRef`` to the pod may name: the pod, and its owners."""
    yield OwnerReference.model_construct(api_version="v1", kind="Pod", name=pod.metadata.name)
    yield from pod.metadata.owner_references
    suffix = f"-{pod.metadata.labels.get('pod-template-hash', '')}"
    for owner in owners(pod, controllers):
        yield owner
        if owner.kind == "ReplicaSet" and owner.name.endswith(suffix) and len(suffix) > 1:
            # A Deployment's pods belong to a ReplicaSet, named after it and a hash.
            yield owner.model_copy(
                update={"kind": "Deployment", "name": owner.name.removesuffix(suffix)}
            )
