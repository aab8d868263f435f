"""What pods have a right to, and which of them are corrected for it."""

from __future__ import annotations

from walras_agent.correction import Purchase
from walras_agent.cpuset import CpuSet
from walras_agent.observe import Container, Group, ObservedPod
from walras_agent.pod_cpus import MeasurementLimit, NodeCpus, PodCpus
from walras_agent.purchases import correctable, purchases

NOTHING = CpuSet()
TWO = (CpuSet(range(16)), CpuSet(range(16, 32)))
ONE, OTHER = TWO


def pod(uid: str) -> ObservedPod:
    return ObservedPod(uid, f"/{uid}", (Container(Group(f"/{uid}/c", NOTHING)),))


def test_pods_bought_their_grant_or_what_they_requested() -> None:
    held = PodCpus(NOTHING, ONE, 1500, user="ada")
    node_cpus = NodeCpus({"a": held}, ONE | OTHER, {"/b/c": OTHER})
    pods = [pod(uid) for uid in "abcd"]
    requests = {"b": 0.25, "c": 0.5}
    assert purchases(pods, node_cpus, lambda each: requests.get(each.uid, 0.0)) == {
        "a": Purchase(1.5, "ada", ONE),
        "b": Purchase(0.25, "b", OTHER),
        "c": Purchase(0.5, "c", ONE | OTHER),
    }


def test_who_shares_the_cpus_of_domains_is_corrected() -> None:
    limit = MeasurementLimit(1, CpuSet([0]))
    pods = {
        "isolated": PodCpus(CpuSet([1, 2]), NOTHING, 2000),
        "measured": PodCpus(CpuSet([0, 3]), NOTHING, 500, limit=limit),
        "mixed": PodCpus(CpuSet([4]), ONE, 1500),
        "large": PodCpus(NOTHING, ONE | OTHER, 20_000),
        "small": PodCpus(NOTHING, OTHER, 10),
    }
    ungranted = {"/near/c": CpuSet([6]), "/anywhere/c": ONE | OTHER, "/apart/c": CpuSet([40])}
    node_cpus = NodeCpus(pods, (ONE | OTHER) - CpuSet(range(5)), ungranted)
    names = [*pods, "near", "anywhere", "apart"]
    bought = purchases(map(pod, names), node_cpus, lambda _: 1.0)
    assert bought.keys() == set(names)
    assert correctable(bought, node_cpus, TWO).keys() == {"mixed", "large", "small", "near"}
