"""Rights of the chart's pods on their nodes, and their probes."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import click
import pytest

from chart import HelmError, events, needs_helm, of_kind, pods, rendered
from walras_agent.daemon.command import main as agent
from walras_operator.command import main as operator

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

pytestmark = [pytest.mark.system, needs_helm]

Document = dict[str, Any]


def container(pod: Document) -> Document:
    (found,) = pod["containers"]
    assert isinstance(found, dict)
    return found


def agent_pod(**values: Any) -> Document:
    (found,) = of_kind("DaemonSet", rendered({"agent": values})).values()
    spec: Document = found["spec"]["template"]["spec"]
    return spec


def test_all_but_the_agent_are_nobody_and_change_nothing() -> None:
    names = []
    for name, pod in pods(rendered()):
        if name.startswith("DaemonSet"):
            continue
        names.append(name.split()[0])
        assert pod["securityContext"]["runAsNonRoot"] is True, name
        assert pod["securityContext"]["runAsUser"] == 65532
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostPID", "hostNetwork", "hostIPC"} & set(pod), name
        assert not any("hostPath" in volume for volume in pod["volumes"]), name
        limits = container(pod)["securityContext"]
        assert limits["readOnlyRootFilesystem"] is True
        assert limits["allowPrivilegeEscalation"] is False
        assert limits["capabilities"] == {"drop": ["ALL"]}
    assert sorted(names) == ["Deployment", "Job", "Job", "Pod"]


def test_every_container_says_what_it_needs() -> None:
    for name, pod in pods(rendered()):
        resources = container(pod)["resources"]
        assert set(resources["requests"]) == {"cpu", "memory"}, name
        assert set(resources["limits"]) == {"memory"}, "a CPU limit would throttle, not protect"


def test_a_pod_that_cannot_start_shows_why_in_its_status() -> None:
    for _, pod in pods(rendered()):
        assert container(pod)["terminationMessagePolicy"] == "FallbackToLogsOnError"


def test_the_agent_has_no_more_than_it_needs() -> None:
    pod = agent_pod()
    limits = container(pod)["securityContext"]
    assert limits["privileged"] is False
    assert limits["allowPrivilegeEscalation"] is False
    assert limits["readOnlyRootFilesystem"] is True
    assert limits["capabilities"]["drop"] == ["ALL"]
    assert set(limits["capabilities"]["add"]) == {"PERFMON"}
    assert "appArmorProfile" not in limits
    assert pod["hostPID"] is True
    assert "hostNetwork" not in pod
    assert pod["tolerations"] == [{"operator": "Exists"}]
    written = {
        volume["hostPath"]["path"]
        for volume in pod["volumes"]
        for mount in container(pod)["volumeMounts"]
        if "hostPath" in volume and volume["name"] == mount["name"] and not mount.get("readOnly")
    }
    assert written == {"/sys/fs/cgroup", "/var/lib/walras-agent"}


def test_of_the_kubelets_folder_the_agent_sees_files_only() -> None:
    """A kubelet replaces its files, so the folder is mounted; no keys, and no Secrets of pods."""
    some: set[str] = {"device-plugins"}
    for folder, sockets in {"/var/lib/kubelet": some, "/var/lib/k0s/kubelet": set()}.items():
        pod = agent_pod(kubelet={"folder": folder})
        volumes = {each["name"]: each for each in pod["volumes"]}
        mounts = {each["mountPath"]: each for each in container(pod)["volumeMounts"]}
        outer = mounts.pop("/var/lib/kubelet")
        assert volumes[outer["name"]]["hostPath"] == {"path": folder, "type": "Directory"}
        hidden = {
            path.removeprefix("/var/lib/kubelet/"): each
            for path, each in mounts.items()
            if path.startswith("/var/lib/kubelet/")
        }
        made = {"pki", "plugins", "plugins_registry", "pod-resources", "pods"}
        assert hidden.keys() == made | sockets
        assert all(each["readOnly"] for each in hidden.values())
        keys = hidden.pop("pki")
        assert keys["subPath"] not in {"", ".", "/"}
        path = f"{folder}/pki"
        assert volumes[keys["name"]]["hostPath"] == {"path": path, "type": "DirectoryOrCreate"}
        assert all("emptyDir" in volumes[each["name"]] for each in hidden.values())


def test_agents_that_find_kubelets_by_their_processes_mount_no_folder_of_theirs() -> None:
    """A folder without a kubelet's own ones would let no container begin: it is read-only."""
    pod = agent_pod(kubelet={"folder": ""}, profiling={"files": True})
    assert not [each["name"] for each in pod["volumes"] if "kubelet" in str(each)]
    assert not [each for each in container(pod)["volumeMounts"] if "kubelet" in str(each)]
    with pytest.raises(HelmError, match=r"agent\.kubelet\.folder: is empty"):
        agent_pod(kubelet={"folder": ""})


def test_a_privileged_agent_still_changes_nothing_of_its_image() -> None:
    limits = container(agent_pod(privileged=True))["securityContext"]
    assert limits["privileged"] is True
    assert limits["readOnlyRootFilesystem"] is True
    assert "allowPrivilegeEscalation" not in limits, "the API server refuses false"


@pytest.mark.parametrize(
    ("profiling", "capabilities"),
    [
        ({"files": True}, {"PERFMON", "SYS_PTRACE", "DAC_READ_SEARCH"}),
        ({"instructions": False, "files": True}, {"SYS_PTRACE", "DAC_READ_SEARCH"}),
        ({}, {"PERFMON"}),
        ({"instructions": False}, set()),
    ],
)
def test_each_way_to_measure_has_its_own_rights(
    profiling: Document, capabilities: set[str]
) -> None:
    limits = container(agent_pod(profiling=profiling))["securityContext"]
    assert set(limits["capabilities"].get("add", ())) == capabilities
    unconfined = "appArmorProfile" in limits
    assert unconfined is profiling.get("files", False)


def test_probes_ask_what_does_not_depend_on_others() -> None:
    """A restart helps nobody whose API server is gone, and plans come only to agents that live."""
    documents = rendered()
    (runs,) = of_kind("Deployment", documents).values()
    (holds,) = of_kind("DaemonSet", documents).values()
    for made, ready in ((runs, "/readyz"), (holds, "/healthz")):
        probed = container(made["spec"]["template"]["spec"])
        (port,) = probed["ports"]
        for probe, path in (("livenessProbe", "/healthz"), ("readinessProbe", ready)):
            assert probed[probe]["httpGet"] == {"path": path, "port": port["name"]}
        start = probed["startupProbe"]
        assert start["httpGet"] == probed["livenessProbe"]["httpGet"]
        assert start["periodSeconds"] * start["failureThreshold"] >= 600, "a busy node is slow"
        assert f"--listen=[::]:{port['containerPort']}" in probed["args"]


def test_hooks_end_before_their_jobs_and_say_what_they_waited_for() -> None:
    """A pod that its Job kills is deleted with its log."""
    hooks = {"installSeconds": 30, "releaseSeconds": 60}
    for values in ({}, {"hooks": hooks}):
        jobs = of_kind("Job", rendered(values))
        assert jobs.keys() == {"walras-install", "walras-release"}
        for made in jobs.values():
            (timeout,) = (
                int(each.removeprefix("--timeout="))
                for each in container(made["spec"]["template"]["spec"])["args"]
                if each.startswith("--timeout=")
            )
            assert 0 < timeout <= made["spec"]["activeDeadlineSeconds"] - 20


def test_on_the_nodes_network_a_new_operator_waits_for_the_old_ones_port() -> None:
    (made,) = of_kind("Deployment", rendered({"hostNetwork": True})).values()
    assert made["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    for name, pod in pods(rendered({"hostNetwork": True})):
        assert pod["hostNetwork"] is True, name
        assert pod["dnsPolicy"] == "ClusterFirstWithHostNet"


def understood(command: click.Group, arguments: Sequence[str]) -> None:
    """Parse a command line, without doing what it says."""
    name, sub, rest = command.resolve_command(click.Context(command), list(arguments))
    assert sub is not None, name
    sub.make_context(name, rest)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {
            "market": {"spec": {"mode": "observe"}},
            "operator": {"log": {"verbose": True}, "debounce": {"quiet": 0, "longest": 0.5}},
            "agent": {
                "mode": "observe",
                "reservedCpus": "0-1",
                "periodSeconds": 2.5,
                "kubelet": {"cgroupDriver": "systemd"},
                "log": {"verbose": True},
            },
        },
        {"crds": {"install": False}, "agent": {"reservedCpus": ""}},
    ],
)
def test_programs_understand_what_they_are_told(values: Document, tmp_path: Path) -> None:
    for name, pod in pods(rendered(values)):
        program = agent if name.startswith("DaemonSet") else operator
        # The folder of cgroups is looked for when it is named, and is in the container only.
        text = " ".join(container(pod)["args"]).replace("/host/cgroup", str(tmp_path))
        understood(program, text.split(" "))


def test_the_agents_volumes_are_where_it_is_told_that_they_are() -> None:
    made = container(agent_pod())
    mounts = {mount["name"]: mount["mountPath"] for mount in made["volumeMounts"]}
    assert f"--cgroups={mounts['cgroups']}" in made["args"]
    assert f"--state-folder={mounts['state']}" in made["args"]
    kubelet = importlib.import_module("walras_agent.kubelet")
    assert mounts["kubelet"] == kubelet.FOLDER


def test_only_named_peers_may_connect_to_operator_and_agents() -> None:
    closed = of_kind("NetworkPolicy", rendered())
    assert len(closed) == 2
    for policy in closed.values():
        assert "Ingress" in policy["spec"]["policyTypes"]
        assert policy["spec"]["ingress"] == []
    peers = [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}]
    opened = rendered({"networkPolicy": {"metricsFrom": peers}})
    for policy in of_kind("NetworkPolicy", opened).values():
        (rule,) = policy["spec"]["ingress"]
        assert rule == {"ports": [{"protocol": "TCP", "port": "http"}], "from": peers}


def test_jobs_end_before_helm_gives_up_on_them() -> None:
    for name, job in of_kind("Job", rendered()).items():
        assert job["spec"]["activeDeadlineSeconds"] < 300, name  # helm's --timeout by default
        assert events(job), "a Job that were no hook could not be upgraded"
