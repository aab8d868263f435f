"""Pods that succeed on a real API server leave runs, whatever becomes of the operator meanwhile.

There is no kubelet: how pods end is written here, and what agents would answer, at once after every
plan. What a pod was held to is known from these answers, and compared with what the operator says.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from market_cluster import OURS, MarketCluster
from real_cluster import KUBECONFIG, RIGHTS, RealCluster, needs_cluster
from rights import OPERATOR_RULES
from waiting import eventually
from walras_operator.decide.world import Lifetime, Reference
from walras_operator.watch.lookups import Ends
from walras_service.api import Api, settings
from walras_service.api_errors import ApiError
from worlds import entitlement, job, market, node, pod

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = needs_cluster

Document = dict[str, Any]

CORES = 8
BOTH = {"mechanism": "Auction"}
CONTAINER = {"name": "main", "image": "i", "imageID": "i", "ready": False, "restartCount": 0}
LATE = 2.0
"""Seconds by which the operator may be late to see what a pod holds, at each change."""


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Agents:
    """Answer to every plan at once, and remember what pods were held to since when."""

    def __init__(self, cluster: MarketCluster) -> None:
        self._cluster, self._closed = cluster, threading.Event()
        self.history: list[tuple[float, dict[str, float]]] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closed.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closed.wait(0.1):
            with suppress(ApiError):
                self._answer()

    def _answer(self) -> None:
        plans = self._cluster.api.request("GET", f"{OURS}/nodeallocations")["items"]
        if all(each.get("status", {}).get("epoch") == each["spec"]["epoch"] for each in plans):
            return
        self._cluster.agents_answer()
        grants = [grant for each in plans for grant in each["spec"].get("grants", ())]
        self.history.append(
            (time.time(), {grant["name"]: float(grant["cores"]) / CORES for grant in grants})
        )

    def mean(self, name: str, end: float) -> tuple[float, float]:
        """Return a pod's mean share of cores until a time, and the operator's largest error."""
        times = [began for began, _ in self.history] + [end]
        lengths = [
            (max(0.0, min(after, end) - began), held[name])
            for (began, held), after in zip(self.history, times[1:], strict=True)
            if name in held
        ]
        total = sum(length for length, _ in lengths)
        shares = [share for _, share in lengths]
        changes = sum(one != other for one, other in pairwise(shares)) + 2
        spread = max(shares) - min(shares)
        mean = sum(length * share for length, share in lengths) / total
        return mean, spread * LATE * changes / total + 1e-6


class Runs:
    """A node that a job whose runs are recorded shares with a rival."""

    def __init__(self, folder: Path) -> None:
        self.cluster = MarketCluster(KUBECONFIG, folder)
        self.name = f"runs-{time.time_ns() % 10**10}"
        self.began: dict[str, str] = {}
        self.ended: dict[str, float] = {}

    def begin(self) -> None:
        self.cluster.namespace(self.name)
        memory = {"demand": "12Gi"}
        self.cluster.make(
            market(cores=BOTH, memory=BOTH, epochSeconds=2),
            entitlement(self.name, namespaces=[self.name]),
            node(self.name, str(CORES)),
            *(job(name, self.name, self.name, memory=memory) for name in ("fit", "rival")),
        )
        self.add("rival-0")
        self.cluster.agents_live([self.name])
        self.agents = Agents(self.cluster)
        self.start()

    def close(self) -> None:
        self.agents.close()
        self.cluster.close()

    def start(self) -> None:
        self.cluster.start_operator("--lease-seconds", "3")

    def restart(self) -> None:
        self.cluster.stop_operator(kill=True)
        self.start()

    def add(self, name: str) -> None:
        app = name.partition("-")[0]
        self.cluster.make(pod(name, app, self.name, namespace=self.name))

    def path(self, name: str) -> str:
        return f"/api/v1/namespaces/{self.name}/pods/{name}"

    def end(self, name: str, phase: str = "Succeeded", **changes: Any) -> None:
        """End a pod, as its kubelet would report it."""
        ended = {"startedAt": self.began[name], "finishedAt": now(), "exitCode": 0}
        container = {**CONTAINER, "state": {"terminated": ended}, **changes}
        self.ended[name] = time.time()
        status = {"phase": phase, "containerStatuses": [container]}
        self.cluster.change(f"{self.path(name)}/status", {"status": status})

    def divide(self, budget: str) -> None:
        """Give the rival another budget, and wait until the job's pods have other shares."""
        before = [each["cores"] for each in self.underway().values()]
        auction = {"spec": {"auction": {"budget": budget}}}
        self.cluster.change(f"{OURS}/namespaces/{self.name}/marketjobs/rival", auction)
        assert eventually(
            lambda: (
                before != [each.get("cores") for each in self.underway().values()]
                and all("cores" in each for each in self.underway().values())
            ),
            60,
        )

    def status(self, name: str = "fit") -> Document:
        path = f"{OURS}/namespaces/{self.name}/marketjobs/{name}"
        found = self.cluster.api.find(path, timeout=60) or {}
        status: Document = found.get("status", {})
        return status

    def underway(self, name: str = "fit") -> dict[str, Document]:
        listed = self.status(name).get("runs", {}).get("underway", ())
        return {each["pod"]: each for each in listed}

    def finished(self) -> dict[str, Document]:
        listed = self.status().get("runs", {}).get("finished", ())
        found = {each["pod"]: each for each in listed}
        assert len(found) == len(listed), "no pod is recorded twice"
        return found

    def weights(self) -> Document:
        found: Document = self.status().get("auction", {}).get("weights", {})
        return found

    def held(self, *names: str) -> bool:
        """Wait until pods' runs are recorded and they begin to work; return whether they do."""
        there = eventually(
            lambda: all("heldSince" in self.underway().get(each, {}) for each in names), 60
        )
        self.began.update((name, now()) for name in names)
        return there


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Runs]:
    made = Runs(tmp_path)
    made.begin()
    try:
        yield made
    finally:
        made.close()


def test_pods_that_succeed_leave_what_they_held_whoever_is_killed(lab: Runs) -> None:
    lab.add("fit-0")
    assert lab.held("fit-0")
    time.sleep(4)
    lab.divide("9")
    time.sleep(4)
    lab.restart()
    time.sleep(4)
    lab.divide("0.2")
    time.sleep(4)
    lab.cluster.stop_operator(kill=True)
    lab.end("fit-0")  # seen by nobody
    time.sleep(2)
    lab.start()
    assert eventually(lambda: "fit-0" in lab.finished(), 60), lab.status()
    run = lab.finished()["fit-0"]
    mean, error = lab.agents.mean("fit-0", lab.ended["fit-0"])
    assert float(run["cores"]) == pytest.approx(mean, abs=error)
    assert error < 0.25, "or this says nothing"
    assert 0 < float(run["memory"]) <= 1
    assert float(run["utility"]) == pytest.approx(1 / run["seconds"], abs=1e-11)
    assert "fit-0" not in lab.underway()

    bad = {"fit-1": "failed", "fit-2": "began anew", "fit-3": "was removed", "fit-4": "was cut"}
    for name in bad:
        lab.add(name)
    assert lab.held(*bad)
    time.sleep(2)
    lab.end("fit-1", "Failed")
    lab.end("fit-2", restartCount=1)
    lab.cluster.delete(lab.path("fit-3"))
    lab.began["fit-4"] = "2026-01-01T00:00:00Z"  # so it was held for a small part of its time
    lab.end("fit-4")
    assert eventually(lambda: not lab.underway(), 60), lab.status()
    assert set(lab.finished()) == {"fit-0"}

    for name, budget in (("fit-5", "5"), ("fit-6", "1")):
        lab.add(name)
        assert lab.held(name)
        lab.divide(budget)
        time.sleep(3)
        lab.end(name)
        lab.restart()
    good = {"fit-0", "fit-5", "fit-6"}
    assert eventually(lambda: set(lab.finished()) == good, 60), lab.finished()
    before = lab.finished()
    lab.add("fit-7")
    lab.restart()
    assert lab.held("fit-7")
    assert eventually(lambda: lab.weights().get("recorded") == 3, 60), lab.status()
    weights = lab.weights()
    assert (weights["source"], weights["runs"]) == ("Estimated", 3)
    assert float(weights["cores"]["lower"]) <= float(weights["cores"]["value"])
    assert lab.finished() == before


def test_ends_are_asked_for_with_the_rights_of_the_operator_until_they_are_known(
    tmp_path: Path,
) -> None:
    """Nothing is known of who runs on, or while the API server does not answer."""
    stranger = RealCluster(f"ends-{time.time_ns() % 10**10}", tmp_path)
    cluster = MarketCluster(KUBECONFIG, tmp_path)
    told = threading.Event()
    ends = Ends(Api(settings(str(stranger.kubeconfig())), "test"), told.set, pause=0.1)
    nowhere = tmp_path / "nowhere"
    nowhere.write_text(
        Path(KUBECONFIG).read_text().replace(cluster.api.host, "https://127.0.0.1:1")
    )
    unheard = Ends(Api(settings(str(nowhere)), "test"), told.set, pause=0.1)
    try:
        names = ("good", "bad", "going", "gone")
        cluster.make(*(pod(name, place="nowhere", namespace=stranger.name) for name in names))
        path = f"/api/v1/namespaces/{stranger.name}/pods"
        uids = {name: cluster.api.request("GET", f"{path}/{name}")["metadata"] for name in names}
        pods = [Reference("Pod", name, stranger.name, uids[name]["uid"]) for name in names]
        cluster.delete(f"{path}/gone")
        ran = {"startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:07Z"}
        container = {**CONTAINER, "state": {"terminated": {**ran, "exitCode": 0}}}
        ended = {"phase": "Succeeded", "containerStatuses": [container]}
        cluster.change(f"{path}/good/status", {"status": ended})
        cluster.change(f"{path}/bad/status", {"status": {**ended, "phase": "Failed"}})

        def known() -> dict[str, Lifetime | None]:
            ends.seek(pods)
            return {each.name: ends.known[each.uid] for each in pods if each.uid in ends.known}

        assert not known()
        time.sleep(1)
        assert not known(), "it has no rights yet"
        create = stranger.objects.create_cluster_custom_object
        create(*RIGHTS, "clusterroles", stranger.role("ClusterRole", OPERATOR_RULES))
        create(*RIGHTS, "clusterrolebindings", stranger.binding("ClusterRole"))
        lifetime = Lifetime(1767225600, 1767225607)
        now_known = {"good": lifetime, "bad": None, "gone": None}
        assert eventually(lambda: known() == now_known, 30)
        assert told.wait(1)
        cluster.change(f"{path}/going/status", {"status": ended})
        assert eventually(lambda: known() == {**now_known, "going": lifetime}, 30)
        ends.seek(pods[:1])
        assert set(ends.known) == {pods[0].uid}, "others are in a status by now"

        unheard.seek(pods)
        time.sleep(1)
        assert not unheard.known
    finally:
        unheard.close()
        ends.close()
        cluster.close()
        stranger.close()
