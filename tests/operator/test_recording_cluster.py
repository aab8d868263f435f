"""How pods ended is asked of a real API server; there is no kubelet, so it is written here."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from market_cluster import MarketCluster
from real_cluster import KUBECONFIG, RIGHTS, RealCluster, needs_cluster
from rights import OPERATOR_RULES
from waiting import eventually
from walras_operator.decide.world import Lifetime, Reference
from walras_operator.watch.lookups import Ends
from walras_service.api import Api, settings
from worlds import pod

pytestmark = needs_cluster

Document = dict[str, Any]

CONTAINER = {"name": "main", "image": "i", "imageID": "i", "ready": False, "restartCount": 0}


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
