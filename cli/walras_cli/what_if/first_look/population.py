"""Pure: a cluster's nodes and pods as users, jobs and shares, without any object of Walras.

What runs the cluster itself is nobody's: pods of DaemonSets and nodes, and those in namespaces of
the system. They keep what they request, and the rest of every node is divided.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from walras_api.market import CoresPolicy
from walras_api.supply import MILLI, cores_per_cpu, for_sale, taken_by, why_closed
from walras_cli.what_if.first_look.queues import Queues
from walras_cli.what_if.owners import Workload, controllers_in, workload_of
from walras_operator.decide.workload_members import PER_NODE
from walras_service.failures import BadInput
from walras_view.text import listed, unknown

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from walras.market.snapshot import Node
    from walras_api.assembly import Objects
    from walras_api.cluster import NodeObject, Pod
    from walras_api.supply import ProcessorCounts
    from walras_view.facts import Use
    from walras_view.first_look import Shares, Unit

Quality = Literal["Guaranteed", "Burstable", "BestEffort"]

MOST_SHARES = 10**9

_SYSTEM_PREFIXES = ("kube-", "openshift-", "gke-managed-")
_SYSTEM_SUFFIX = "-system"


@dataclass(frozen=True, slots=True)
class Rules:
    """What counts as a user, and what it is entitled to.

    Attributes:
        users_by: Who is a user: ``namespace``, ``kueue``, ``label:KEY`` or ``annotation:KEY``.
        shares: Source of the shares.
        fractions: Parallel fractions that are known, by ``namespace/job`` or namespace.
    """

    users_by: str = "namespace"
    shares: Shares = "equal"
    fractions: Mapping[str, float] = field(default_factory=dict)

    def fraction_of(self, workload: Workload) -> float | None:
        """Return the parallel fraction of a job, if it is known."""
        own = self.fractions.get(workload.title)
        return self.fractions.get(workload.namespace) if own is None else own


class PodOfJob(NamedTuple):
    """A pod that has a user.

    Attributes:
        namespace: Its namespace.
        name: Its name.
        job: Number of its job.
        user: Number of its user.
        node: Number of its node.
        request: Cores that it requests, in the population's unit, as all that follow.
        limit: Cores that its limits allow; infinity without limits.
        used: Cores that it uses; None if unknown.
        quality: Its quality of service class.
        fraction: Its job's parallel fraction; None if unknown.
    """

    namespace: str
    name: str
    job: int
    user: int
    node: int
    request: float
    limit: float
    used: float | None
    quality: Quality
    fraction: float | None


@dataclass(frozen=True, slots=True)
class Population:
    """Users with their pods, by numbers.

    Attributes:
        users: Names of users, sorted.
        shares: Share of each user, positive.
        jobs: Jobs, sorted, each of them of one user.
        nodes: Nodes with the cores that are divided.
        pods: Pods of the jobs.
        unit: What cores are: CPUs of Kubernetes, unless agents have counted the cores of all nodes.
        notes: Lines for people about what takes no part, and what is assumed.
    """

    users: tuple[str, ...]
    shares: tuple[int, ...]
    jobs: tuple[Workload, ...]
    nodes: tuple[Node, ...]
    pods: tuple[PodOfJob, ...]
    notes: tuple[str, ...]
    unit: Unit = "CPU"

    @property
    def cores(self) -> float:
        """Cores of all nodes that are divided."""
        return sum(node.cores for node in self.nodes)


def population_of(
    objects: Objects, documents: Sequence[Mapping[str, Any]], rules: Rules, use: Use
) -> Population:
    """Return the users of a cluster and their pods.

    Args:
        objects: Nodes, pods and namespaces.
        documents: The same as documents, and all others: owners, quotas, queues.
        rules: Who is a user.
        use: What pods use, as far as it is known.

    Raises:
        BadInput: There is nothing to divide, or shares are wanted of quotas that do not exist.
    """
    controllers = controllers_in(documents, objects.pods)
    outside: list[Pod] = []
    theirs: list[tuple[Workload, Pod]] = []
    for pod in objects.pods:
        if pod.alive:
            made = workload_of(pod, controllers)
            if pod.is_static or made.kind in PER_NODE or is_of_the_system(made.namespace):
                outside.append(pod)
            else:
                theirs.append((made, pod))
    notes: list[str] = []
    unit: Unit = "core" if _cores_are_counted(objects) else "CPU"
    topologies = objects.topologies if unit == "core" else {}
    nodes = _nodes(objects, topologies, outside, notes)
    nodes = _of_users(nodes, objects, {pod.spec.node_name for _, pod in theirs}, notes)
    number = {node.name: each for each, node in enumerate(nodes)}
    naming = _Naming(rules.users_by, documents)
    members = [
        (naming.user_of(pod), made, pod) for made, pod in theirs if pod.spec.node_name in number
    ]
    if not members:
        raise BadInput(
            "the cluster has no pods of users: all belong to DaemonSets, to nodes or to the "
            "system's namespaces, or wait for a node; include all pods: kubectl get pods -A -o yaml"
        )
    keys = sorted({(user, made) for user, made, _ in members})
    users = sorted({user for user, _ in keys})
    job = {key: each for each, key in enumerate(keys)}
    place = {user: each for each, user in enumerate(users)}
    used = use.pods or {}

    def cores(pod: Pod, cpus: float) -> float:
        topology = topologies.get(pod.spec.node_name or "")
        return cpus * float(cores_per_cpu(CoresPolicy(), topology))

    pods = tuple(
        PodOfJob(
            pod.metadata.namespace,
            pod.metadata.name,
            job[user, made],
            place[user],
            number[str(pod.spec.node_name)],
            cores(pod, float(pod.cpus_requested)),
            cores(pod, pod.cpu_limit),
            None if (it := used.get(_name(pod))) is None else cores(pod, it.cpus),
            quality_of(pod),
            rules.fraction_of(made),
        )
        for user, made, pod in members
    )
    shares = _shares(rules.shares, users, pods, naming, notes)
    waiting = sum(not pod.spec.node_name for _, pod in theirs)
    notes += _left_out(len(outside), waiting, len(theirs) - waiting - len(members))
    return Population(
        tuple(users),
        shares,
        tuple(made for _, made in keys),
        tuple(nodes),
        pods,
        tuple(notes),
        unit,
    )


def _name(pod: Pod) -> tuple[str, str]:
    return pod.metadata.namespace, pod.metadata.name


def _cores_are_counted(objects: Objects) -> bool:
    """Return whether agents have reported the cores of all nodes that are open."""
    open_ = [each.metadata.name for each in objects.nodes if why_closed(each) is None]
    return all(name in objects.topologies for name in open_)


def is_of_the_system(namespace: str) -> bool:
    """Return whether a namespace, by its name, runs the cluster rather than somebody's programs."""
    return namespace.startswith(_SYSTEM_PREFIXES) or namespace.endswith(_SYSTEM_SUFFIX)


def _nodes(
    objects: Objects,
    topologies: Mapping[str, ProcessorCounts],
    outside: Sequence[Pod],
    notes: list[str],
) -> list[Node]:
    taken = taken_by(outside)
    shut = [
        f"{node.metadata.name} {why}"
        for node in objects.nodes
        if (why := why_closed(node)) is not None
    ]
    if shut:
        notes.append(f"nodes that are left out: {listed(shut)}")
    sold = [
        for_sale(node, taken, CoresPolicy(), topologies.get(node.metadata.name), notes)
        for node in objects.nodes
        if why_closed(node) is None
    ]
    return [node for node in sold if node.cores > 0]


def _of_users(
    nodes: Sequence[Node], objects: Objects, used: Collection[str | None], notes: list[str]
) -> list[Node]:
    """Return the nodes that run pods of users, and those that no taint keeps them from."""
    tainted = {each.metadata.name for each in objects.nodes if _is_kept(each)} - set(used)
    if tainted:
        notes.append(
            f"nodes that are left out, as they are tainted and run no pod of users: {len(tainted)}"
        )
    return [node for node in nodes if node.name not in tainted]


def _is_kept(node: NodeObject) -> bool:
    """Return whether a taint keeps pods away from a node, such as one of the control plane."""
    return any(taint.effect in {"NoSchedule", "NoExecute"} for taint in node.spec.taints)


def _left_out(outside: int, waiting: int, elsewhere: int) -> list[str]:
    counts = {
        "pods of the system and of DaemonSets, which keep what they request": outside,
        "pods that wait for a node, which are left out": waiting,
        "pods on nodes that are left out, which are not counted": elsewhere,
    }
    return [f"{text}: {count}" for text, count in counts.items() if count]


def quality_of(pod: Pod) -> Quality:
    """Return the quality of service class that Kubernetes gives a pod."""
    if pod.is_guaranteed:
        return "Guaranteed"
    whole = pod.spec.resources
    parts = [each.resources for each in (*pod.spec.containers, *pod.spec.init_containers)]
    asks = any(each.requests or each.limits for each in (whole, *parts))
    return "Burstable" if asks else "BestEffort"


class _Naming:
    """Says whose a pod is, by namespaces, queues, labels or annotations."""

    def __init__(self, users_by: str, documents: Sequence[Mapping[str, Any]]) -> None:
        self.by, _, self.key = users_by.partition(":")
        if (self.by in {"label", "annotation"}) != bool(self.key) or self.by not in {
            "namespace",
            "kueue",
            "label",
            "annotation",
        }:
            raise BadInput(
                f"--users-by {users_by}: write namespace, kueue, label:KEY or annotation:KEY, such "
                f"as label:team"
            )
        self._field = f"{self.by}s"
        self._metadata = {
            (kind, str(metadata.get("namespace", "")), str(metadata.get("name"))): metadata
            for document in documents
            if (kind := document.get("kind")) in {"Pod", "Namespace"}
            and isinstance(metadata := document.get("metadata"), dict)
        }
        self.queues = Queues.of(documents)
        self._refuse_what_nothing_has()

    def _refuse_what_nothing_has(self) -> None:
        """See that anything has what is to name users.

        Raises:
            BadInput: Nothing has.
        """
        if self.by == "kueue" and not (self.queues.local or self.queues.nominal):
            raise BadInput(
                "--users-by kueue: there are no queues; add the output of `kubectl get "
                "clusterqueues,localqueues -A -o yaml`, or drop --users-by"
            )
        if not self.key:
            return
        found = [each.get(self._field) for each in self._metadata.values()]
        keys = {str(key) for each in found if isinstance(each, dict) for key in each}
        if missing := unknown([self.key], keys):
            raise BadInput(
                f"--users-by {self.by}:{self.key}: no pod and no namespace has the {self.by} "
                f"{missing}; there are {listed(sorted(keys)) or 'none'}"
            )

    def user_of(self, pod: Pod) -> str:
        namespace = pod.metadata.namespace
        if self.by == "namespace":
            return namespace
        if self.by == "kueue":
            return self.queues.queue_of(namespace, pod.metadata.labels) or namespace
        for at in (("Pod", namespace, pod.metadata.name), ("Namespace", "", namespace)):
            values = (self._metadata.get(at) or {}).get(self._field)
            if isinstance(values, dict) and values.get(self.key):
                return str(values[self.key])
        return f"without {self.key}"


def _shares(
    source: Shares,
    users: Sequence[str],
    pods: Sequence[PodOfJob],
    naming: _Naming,
    notes: list[str],
) -> tuple[int, ...]:
    """Return the share of each user, a whole number above 0."""
    if source == "equal":
        return (1,) * len(users)
    requests: defaultdict[str, float] = defaultdict(float)
    for pod in pods:
        requests[users[pod.user]] += pod.request
    if source == "requests":
        return tuple(_whole(requests[user]) for user in users)
    quotas = naming.queues.nominal if naming.by == "kueue" else naming.queues.quotas
    if naming.by not in {"kueue", "namespace"} or not quotas.keys() & set(users):
        raise BadInput(
            "--shares quota: no user has a quota of CPUs; add the output of `kubectl get "
            "resourcequotas -A -o yaml` (with --users-by kueue: clusterqueues,localqueues), or use "
            "--shares requests"
        )
    without = [user for user in users if user not in quotas]
    if without:
        notes.append(
            f"users without a quota of CPUs, whose shares are their requests: {listed(without)}"
        )
    return tuple(_whole(quotas.get(user, requests[user])) for user in users)


def _whole(cores: float) -> int:
    return min(max(round(MILLI * cores), 1), MOST_SHARES)
