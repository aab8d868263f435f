"""The linear market as the operator tells of it: bounds on nodes, and what did not settle."""

from __future__ import annotations

from walras_operator.decision import decide
from worlds import condition, entitlement, job, market, node, pod, status, world

LINEAR = {"mechanism": "PriceAnticipating"}


def test_an_entitlement_that_bids_on_one_node_has_cores_there_and_a_part_of_one_elsewhere() -> None:
    users = [entitlement("vision", maxNodes=1), entitlement("speech"), entitlement("sound")]
    jobs = [job("train"), *(job(name, name) for name in ("speech", "sound"))]
    pods = [
        pod(f"{app}-{place}", app, place)
        for app in ("train", "speech", "sound")
        for place in ("n1", "n2")
    ]
    decision = decide(world(market(cores=LINEAR), *users, node("n1"), node("n2"), *jobs, *pods))
    told = status(decision, "MarketJob", "train", "lab")["pods"]
    own = {each["node"]: each["grantedCores"] for each in told}
    assert min(own.values()) == 0
    assert max(own.values()) > 8 / 3
    (left,) = (each for each in told if not each["grantedCores"])
    assert left["sharedCores"] >= 1
    assert "maxNodes lets it bid on 1 at once" in left["reason"]
    assert condition(decision, "Market", "default")[:2] == ("True", "Cleared")
