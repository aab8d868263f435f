"""Jobs with objectives under overload on a real node: who has its minimum there, and who pays.

One life in the order of the tests, as in `test_on_a_node`; in the end the market is as it was.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

import pytest

from cluster_tools import apply, get, kubectl
from shared_node import OURS, TEAMS, entitlement, job
from waiting import eventually

if TYPE_CHECKING:
    from cluster_tools import Document
    from installed import Installed

pytestmark = pytest.mark.node

FEW, MANY = 1, 9
"""Shares of a team that is to pay less and more."""

SWEEP_SECONDS = 20

HALF = {"budget": "4", "minimumUtility": "0.5"}
"""Half of the node's cores, which only one job at a time can have: others need one too."""


def bidding(team: str, program: str, auction: Document) -> Document:
    plain = job(team, program)
    return {**plain, "spec": {**plain["spec"], "auction": auction}}


def sweep() -> Document:
    """A pod that ends by itself."""
    container = {
        "name": "main",
        "image": f"localhost/walras-agent:{version('walras')}",
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-c", f"import time; time.sleep({SWEEP_SECONDS})"],
        "resources": {"requests": {"memory": "64Mi"}},
    }
    spec = {"hostNetwork": True, "restartPolicy": "Never", "containers": [container]}
    where = {"name": "sweep", "namespace": "vision", "labels": {"app": "sweep"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": where, "spec": spec}


def use(mechanism: str, of: str = "cores") -> None:
    patch = f'{{"spec": {{"{of}": {{"mechanism": "{mechanism}"}}}}}}'
    kubectl("patch", "market", "default", "--type", "merge", "--patch", patch)


def give(*, vision: int, speech: int) -> None:
    """Change what the teams are entitled to, and so what their jobs can bid."""
    apply(entitlement("vision", vision), entitlement("speech", speech))


def status(team: str, program: str) -> Document:
    found = get(f"/apis/{OURS}/namespaces/{team}/marketjobs/{program}")
    result: Document = found.get("status", {})
    return result


def objective(team: str, program: str) -> str:
    """Return the reason why a job's objective is met or not; empty if its status has none."""
    conditions = status(team, program).get("conditions", ())
    return next((each["reason"] for each in conditions if each["type"] == "ObjectiveMet"), "")


def serves(installed: Installed, winner: str) -> bool:
    """Wait until one job has its objective and holds its cores, and the other does not."""
    objectives = {"train": "vision", "decode": "speech"}

    def served() -> bool:
        met = {each: objective(team, each) for each, team in objectives.items()}
        others = {each: "Unaffordable" for each in objectives if each != winner}
        granted = installed.shared.granted()
        return (
            met == {winner: "Met", **others}
            and granted.get(winner, 0) >= 1
            and not installed.shared.amiss()
        )

    return eventually(served, 180, pause=0.2)


def tell(installed: Installed) -> str:
    told = {each: status(team, each) for team, programs in TEAMS.items() for each in programs}
    return f"{installed.shared.granted()}: {installed.shared.amiss()}: {told}"


def test_who_has_the_money_has_its_minimum(unharmed: Installed) -> None:
    give(vision=MANY, speech=FEW)
    apply(bidding("vision", "train", HALF), bidding("speech", "decode", HALF))
    apply(job("vision", "index"), job("speech", "align"))
    use("Auction")
    assert serves(unharmed, "train"), tell(unharmed)
    won, lost = (status(*each)["auction"] for each in (("vision", "train"), ("speech", "decode")))
    assert float(won["utility"]) >= 0.5
    assert float(won["budget"]) > 7.2 * float(lost["budget"]), "index gives train its money"


@pytest.mark.parametrize("part", ["operator", "agent"])
def test_a_killed_part_of_walras_takes_no_core_of_a_promise(unharmed: Installed, part: str) -> None:
    assert serves(unharmed, "train"), tell(unharmed)
    held = unharmed.shared.cpus()["train"]
    unharmed.node.kill(unharmed.pod(part))
    assert serves(unharmed, "train"), tell(unharmed)
    assert unharmed.shared.cpus()["train"] == held


def test_who_can_pay_more_is_served_instead(unharmed: Installed) -> None:
    give(vision=FEW, speech=MANY)
    assert serves(unharmed, "decode"), tell(unharmed)
    give(vision=MANY, speech=FEW)
    assert serves(unharmed, "train"), tell(unharmed)


def test_a_program_that_succeeds_leaves_a_run(unharmed: Installed) -> None:
    use("Auction", of="memory")
    bids = job("vision", "sweep")
    apply({**bids, "spec": {**bids["spec"], "memory": {"demand": "64Mi"}}})
    apply(sweep())

    def runs() -> Document:
        found: Document = status("vision", "sweep").get("runs", {})
        return found

    assert eventually(lambda: runs().get("underway"), 60, pause=0.2), tell(unharmed)
    uid = get("/api/v1/namespaces/vision/pods/sweep")["metadata"]["uid"]
    assert eventually(lambda: runs().get("finished"), 90, pause=0.2), runs()
    (run,) = runs()["finished"]
    assert (run["podUID"], run["pod"]) == (uid, "sweep")
    assert run["seconds"] >= SWEEP_SECONDS
    assert 0 < float(run["cores"]) <= 1
    assert 0 < float(run["memory"]) <= 1
    assert float(run["utility"]) == pytest.approx(1 / run["seconds"], rel=1e-3)
    assert "underway" not in runs()
    for what in ("pod", "marketjob.walras.dev"):
        kubectl("delete", "--namespace", "vision", what, "sweep")
    use("Karma", of="memory")


def test_another_mechanism_takes_over_and_promises_nothing(unharmed: Installed) -> None:
    use("AmdahlBidding")
    told = lambda: objective("vision", "train") == "NoAuction"  # noqa: E731
    assert eventually(told, 60, pause=0.2), tell(unharmed)
    assert "auction" not in status("vision", "train")
    apply(job("vision", "train"), job("speech", "decode"))
    assert eventually(lambda: not objective("vision", "train"), 60, pause=0.2), tell(unharmed)
    assert eventually(lambda: not unharmed.shared.amiss(), 60, pause=0.2), tell(unharmed)
