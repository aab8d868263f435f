"""The linear market as the operator tells of it: bounds on nodes, and what did not settle."""

from __future__ import annotations

from whole_decisions import decide
from worlds import condition, entitlement, job, market, node, pod, status, world

LINEAR = {"mechanism": "PriceAnticipating"}


def test_an_entitlement_that_bids_on_one_node_has_cores_there_and_a_part_of_one_elsewhere() -> None:
    users = [entitlement("vision", maxNodes=1), entitlement("speech"), entitlement("sound")]
    jobs = [job("train"), *(job(name, name) for name in ("speech", "sound"))]
    pods = [
        pod(f"{app}-{place}", app, place, cpu="0")
        for app in ("train", "speech", "sound")
        for place in ("n1", "n2")
    ]
    decision = decide(world(market(cores=LINEAR), *users, node("n1"), node("n2"), *jobs, *pods))
    told = status(decision, "MarketJob", "train", "lab")["pods"]
    (left,) = (each for each in told if each["bought"] == "0")
    (bought,) = (each for each in told if each["bought"] != "0")
    assert float(bought["held"]) > 8 / 3
    assert left["held"] == "0.25"
    assert "maxNodes lets it bid on 1 at once" in left["reason"]
    assert condition(decision, "Market", "default")[:2] == ("True", "Cleared")
