"""Walras on a node as production has them: systemd, cgroup v2, eight CPUs, two NUMA nodes.

One life in the order of the tests. The node is emulated, and so slow that its seconds mean nothing;
order, placement and the kernel's answers are real.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from cluster_tools import SYSTEM, ToolError, apply, get, helm, kubectl, pods
from installed import IMAGE, withdraw
from shared_node import TEAMS, deployment, entitlement, job, namespace
from virtual_life import AGENT, PATIENCE, Life
from virtual_node import READ
from waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.vmnode

PROFILES = "/apis/walras.dev/v1alpha1/namespaces/{}/speedupprofiles/{}"


def unprofiled(document: dict[str, Any]) -> dict[str, Any]:
    """A MarketJob that says nothing of its speedup."""
    spec = {field: each for field, each in document["spec"].items() if field != "parallelFraction"}
    return {**document, "spec": spec}


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    try:
        life = Life(tmp_path_factory.mktemp("vmnode"))
        apply(unprofiled(job("vision", "train")), job("vision", "index"))
        apply(job("speech", "decode"), job("speech", "align"))
        yield life
    finally:
        withdraw("15m")


def test_granted_cores_are_the_kernels(life: Life) -> None:
    granted = life.settles()
    assert granted, life.told()
    assert sum(granted.values()) <= life.node.cpus - 1
    cpus: dict[str, frozenset[int]] = {}

    def agree() -> bool:
        cpus.update(life.shared.cpus())
        return life.shared.told() == cpus

    assert eventually(agree, PATIENCE, pause=5), "guests and measurements last a minute at most"
    most = max(granted, key=granted.__getitem__)
    others = frozenset().union(*(cpus[each] for each in cpus if each != most))
    half = life.node.cpus // 2
    for first in (0, half):
        there = frozenset(range(first, first + half))
        room = len(there - others) - 1  # one CPU stays shared
        assert cpus[most] <= there or room < granted[most], f"{cpus} of two NUMA nodes"


def test_a_pod_is_measured_online_and_its_agent_lives(life: Life) -> None:
    train = PROFILES.format("vision", "train")

    def measured() -> bool:
        found = get(train).get("status", {}).get("online", {})
        return bool(found.get("measurements"))

    assert eventually(measured, PATIENCE, pause=5), get(train)
    assert life.unexpected_restarts() == 0
    assert life.settles(), life.told()


FRACTIONS = {"steps": 0.8, "pages": 0.6}
PORT = 28123
STEPS = """
import http.server, os, threading, time
FRACTION, PORT = {}, {}
done, last = 0.0, time.monotonic()
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(str(round(1000 * done)).encode())
if PORT:
    pages = http.server.HTTPServer(("", PORT), Page)
    threading.Thread(target=pages.serve_forever, daemon=True).start()
while True:
    time.sleep(0.05)
    now = time.monotonic()
    done += (now - last) / (1 - FRACTION + FRACTION / len(os.sched_getaffinity(0)))
    last = now
    with open("/tmp/new", "w") as file:
        file.write(str(round(1000 * done)))
    os.replace("/tmp/new", "/tmp/progress")
"""
"""Progresses as Amdahl's law says of its fraction, so that the machine's speed is no matter."""


def test_the_parallel_fractions_of_two_jobs_are_found_though_the_agent_is_killed(
    life: Life,
) -> None:
    """One counts in a file, one by HTTP; the agent measures them as its image is."""
    counters: dict[str, dict[str, Any]] = {
        "steps": {"file": "/tmp/progress"},  # noqa: S108 - the container's
        "pages": {"http": {"port": PORT}},
    }
    documents = [namespace("lab"), entitlement("lab", 9)]
    for name, counter in counters.items():
        script = STEPS.format(FRACTIONS[name], PORT if "http" in counter else 0)
        documents.append(deployment("lab", name, IMAGE, script))
        documents.append(unprofiled(job("lab", name)))
        documents[-1]["spec"]["progress"] = counter
    apply(*documents)

    def online(name: str) -> dict[str, Any]:
        status = get(PROFILES.format("lab", name)).get("status", {})
        return {"fraction": status.get("parallelFraction"), **status.get("online", {})}

    def close(name: str) -> bool:
        fraction = online(name)["fraction"]
        return fraction is not None and abs(float(fraction) - FRACTIONS[name]) <= 0.05

    def being_measured() -> bool:
        return any("request" in online(name) for name in counters)

    try:
        assert eventually(being_measured, PATIENCE, pause=1)
        life.kill_agent()
        both_known = lambda: all(map(close, counters))  # noqa: E731
        assert eventually(both_known, PATIENCE, pause=5), [online(name) for name in counters]
        assert life.unexpected_restarts() == 0
        assert eventually(lambda: not being_measured(), PATIENCE, pause=5)
        assert life.settles(), life.told()
    finally:
        kubectl("delete", "namespace/lab", "--wait=false")
        kubectl("delete", "entitlement", "lab")
    assert life.settles(), life.told()


def test_a_changed_entitlement_moves_cores(life: Life) -> None:
    before = life.shared.own()
    apply(entitlement("vision", 1), entitlement("speech", 6))
    moved = lambda: life.shared.own() != before and not life.shared.amiss()  # noqa: E731
    assert eventually(moved, PATIENCE, pause=5), life.told()
    assert life.settles(), life.told()


def test_users_hold_the_fractions_that_they_bought(life: Life) -> None:
    """Seven cores are sold to two equal users, and each holds three and a half."""
    apply(entitlement("vision", 1), entitlement("speech", 1))

    def held() -> dict[str, float]:
        grants = life.shared.allocation()["spec"]["grants"]
        return {
            team: sum(float(each["cores"]) for each in grants if each["namespace"] == team)
            for team in TEAMS
        }

    equal = pytest.approx(dict.fromkeys(TEAMS, 3.5), abs=0.01)
    assert eventually(lambda: held() == equal, PATIENCE, pause=5), held()
    assert life.settles(), life.told()


RELOAD = f"systemctl daemon-reload; {READ}"
"""Reloads systemd, and reads all before an agent could put anything right."""


def test_a_reloaded_systemd_and_a_killed_kubelet_move_no_core(life: Life) -> None:
    held, limits = life.shared.own(), life.settings()
    life.node.cgroups.look(RELOAD)
    assert {
        name: life.node.cgroups.settings(group) for name, group in life.groups.items()
    } == limits
    life.node.restart("kubelet")
    heartbeat = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{life.node.name}"
    beaten = get(heartbeat)["spec"]["renewTime"]
    again = lambda: get(heartbeat)["spec"]["renewTime"] > beaten  # noqa: E731
    assert eventually(again, PATIENCE, pause=2)
    assert life.settles(), life.told()
    assert life.shared.own() == held
    assert life.unexpected_restarts() == 0


ELSEWHERE = r"""
mkdir -p /home/kubernetes /etc/systemd/system/kubelet.service.d
sed "\$a reservedSystemCPUs: '0'" /var/lib/kubelet/config.yaml >/home/kubernetes/kubelet.yaml
sed 's#/var/lib/kubelet/config.yaml#/home/kubernetes/kubelet.yaml#' /payload/start >/var/lib/start
printf '[Service]\nExecStart=\nExecStart=/bin/sh /var/lib/start\n' \
  >/etc/systemd/system/kubelet.service.d/elsewhere.conf
systemctl daemon-reload
"""
"""Commands that configure the kubelet by a file that is mounted in no pod, as on GKE."""


CORES = 8
"""Cores of the node; the Market's rules keep one from being sold, and the kubelet reserves one."""


def test_a_kubelet_that_is_configured_elsewhere_is_understood(life: Life) -> None:
    life.node.shell(ELSEWHERE)
    life.node.restart("kubelet")

    def reserved() -> bool:
        """Return whether the agent reports the reserved CPU, and the market does not sell it."""
        allocation = life.shared.allocation()
        sold = sum(float(grant["cores"]) for grant in allocation["spec"]["grants"])
        topology = allocation.get("status", {}).get("topology", {})
        return bool(topology.get("reserved") == "0" and sold <= CORES - 2)

    assert eventually(reserved, PATIENCE, pause=5), life.shared.allocation()
    assert life.settles(), life.told()
    assert all(0 not in own for own in life.shared.own().values())
    assert life.unexpected_restarts() == 0


LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases"


def test_a_silent_agent_costs_nobody_a_core(life: Life) -> None:
    """Its Lease lasts 40 s; no grant of the node is withdrawn, and no pod is moved."""
    held, epoch = life.shared.own(), life.shared.allocation()["spec"]["epoch"]
    life.deploy_agents(nowhere=True)
    try:
        assert eventually(lambda: not pods(SYSTEM, AGENT), PATIENCE, pause=5)
        lease = f"{LEASES}/walras-agent-{life.node.name}"
        renewed = get(lease)["spec"]["renewTime"]
        time.sleep(60)  # longer than the Lease
        assert get(lease)["spec"]["renewTime"] == renewed
        assert life.shared.allocation()["spec"]["epoch"] == epoch
        assert life.shared.own() == held
    finally:  # the tests after this one need the agent
        life.deploy_agents(nowhere=False)
    assert eventually(lambda: get(lease)["spec"]["renewTime"] > renewed, PATIENCE, pause=5)
    assert life.settles(), life.told()
    assert life.shared.own() == held


def test_a_cpuset_controller_that_vanishes_is_there_again(life: Life) -> None:
    life.node.shell(
        "cd /sys/fs/cgroup; find kubepods.slice -name cgroup.subtree_control | sort -r |"
        "while read -r file; do echo -cpuset >$file; done"
    )
    assert life.settles(), life.told()


def test_a_pod_that_is_resized_in_place_keeps_its_size(life: Life) -> None:
    """Kubelets resize so: the pod's group first, then the container's."""
    group = life.shared.groups()["align"]
    pod = group.rpartition("/")[0]
    size = "300000 100000"
    write = f"cd /sys/fs/cgroup; echo {size} >{{0}}/cpu.max; cat {{0}}/cpu.max"
    for each in (pod, group):
        life.node.shell(write.format(each))
    assert life.settles(), life.told()
    kubectl("delete", "marketjob", "-n", "speech", "align")

    def sizes() -> set[str]:
        return {
            life.node.shell(f"cat /sys/fs/cgroup/{each}/cpu.max").strip() for each in (pod, group)
        }

    assert eventually(lambda: sizes() == {size}, PATIENCE, pause=5), sizes()
    for each in (group, pod):
        life.node.shell(f"echo max 100000 >/sys/fs/cgroup/{each}/cpu.max")
    apply(job("speech", "align"))
    assert life.settles(), life.told()


def test_a_node_that_is_reset_in_the_midst_of_moves_comes_back(life: Life) -> None:
    apply(entitlement("vision", 5), entitlement("speech", 1))
    life.node.restart("node")
    assert eventually(lambda: len(life.settings()) == len(life.before), PATIENCE, pause=5)
    assert life.settles(), life.told()
    life.forget_containers()


def test_an_uninstall_puts_every_original_value_back(life: Life) -> None:
    helm("uninstall", "walras", "--wait", "--timeout", "30m")
    assert life.settings() == life.before
    assert all(pods(team) for team in TEAMS)
    with suppress(ToolError):
        kubectl("delete", "namespace", *TEAMS, "--wait=false")
