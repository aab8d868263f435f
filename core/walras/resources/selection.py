"""Selection of pods by MarketJobs, and the one owner of each pod."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from walras.resources.cluster import Pod
    from walras.resources.kinds import MarketJob


class Selection(NamedTuple):
    """The MarketJobs that own pods.

    Attributes:
        job: Owner of each selected pod that is alive, by the pod's position.
        contested: All jobs that select the same pod, its owner first, by the pod's position; only
            for pods that several jobs select.
    """

    job: dict[int, MarketJob]
    contested: dict[int, tuple[MarketJob, ...]]


def select(jobs: Sequence[MarketJob], pods: Sequence[Pod]) -> Selection:
    """Find the job that owns each pod: of those that select it, the oldest, then the first by name.

    A new job therefore never takes pods from an existing one. Static pods belong to none: only an
    annotation, which any user can set, says which cgroup is theirs.
    """
    index = _Index(jobs)
    selection = Selection({}, {})
    for number, pod in enumerate(pods):
        if not pod.alive or pod.is_static:
            continue
        mine = list(index.candidates(pod))
        if mine:
            selection.job[number] = index.ranked[min(mine)]
        if len(mine) > 1 and len(mine := sorted(set(mine))) > 1:
            selection.contested[number] = tuple(index.ranked[rank] for rank in mine)
    return selection


class _Index:
    """An index of jobs by label or owner, so that a pod is not matched against all jobs.

    A job with a label selector is indexed by its rarest label among all selectors.
    """

    def __init__(self, jobs: Sequence[MarketJob]) -> None:
        self.ranked = sorted(jobs, key=lambda job: (_age(job), job.metadata.name))
        self._wanted = [frozenset(_labels(job)) for job in self.ranked]
        asked = Counter(
            (job.metadata.namespace, *label)
            for job, wanted in zip(self.ranked, self._wanted, strict=True)
            for label in wanted
        )
        self._by_label: defaultdict[tuple[str, str, str], list[int]] = defaultdict(list)
        self._by_maker: defaultdict[tuple[str, str, str], list[int]] = defaultdict(list)
        for rank, job in enumerate(self.ranked):
            namespace, target = job.metadata.namespace, job.spec.target_ref
            labels = [(namespace, *label) for label in self._wanted[rank]]
            if labels:
                self._by_label[min(labels, key=lambda label: (asked[label], label))].append(rank)
            elif target is not None:
                self._by_maker[namespace, target.kind, target.name].append(rank)

    def candidates(self, pod: Pod) -> Iterator[int]:
        """Yield the ranks of the jobs that select a pod."""
        namespace, labels = pod.metadata.namespace, pod.metadata.labels
        for key, value in labels.items():
            for rank in self._by_label.get((namespace, key, value), ()):
                if self._wanted[rank] <= labels.items():
                    yield rank
        for maker in _makers(pod):
            yield from self._by_maker.get((namespace, *maker), ())


def _age(job: MarketJob) -> tuple[bool, str]:
    """Return a sort key by age; jobs without a creation time come last."""
    created = job.metadata.creation_timestamp
    return not created, created


def _labels(job: MarketJob) -> Iterable[tuple[str, str]]:
    selector = job.spec.selector
    return () if selector is None else selector.match_labels.items()


def _makers(pod: Pod) -> Iterator[tuple[str, str]]:
    """Yield kind and name of whatever a ``targetRef`` to the pod may name: it, and its owners."""
    yield "Pod", pod.metadata.name
    suffix = f"-{pod.metadata.labels.get('pod-template-hash', '')}"
    for owner in pod.metadata.owner_references:
        yield owner.kind, owner.name
        if owner.kind == "ReplicaSet" and owner.name.endswith(suffix) and len(suffix) > 1:
            # A Deployment's pods belong to a ReplicaSet, named after it and a hash.
            yield "Deployment", owner.name.removesuffix(suffix)
