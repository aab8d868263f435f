"""Kubelets as distributions run and configure them: what they reserve, and where their pods are.

Each case is a host's files, and what its kubelet would do. They are made after the documentation of
the distribution; the kubelet's own rules are those of ``cmd/kubelet/app/server.go`` (flags above
files) and of sigs.k8s.io/yaml (one document, tabs where JSON has them).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from walras_agent.cpuset import CpuSet
from walras_agent.daemon.node import HostPaths
from walras_agent.kubelet import Kubelet

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
RESERVES = f'{HEAD}reservedSystemCPUs: "0-1"\n'
CONFIG = "/var/lib/kubelet/config.yaml"
K3S = "/var/lib/rancher/k3s/agent/etc/kubelet.conf.d"


def host(root: Path, files: Mapping[str, str], *command: str, comm: str = "") -> Kubelet:
    """Return the settings of a host's kubelet, which runs as process 812 if there is a command."""
    if command:
        files = {
            **files,
            "/proc/812/comm": comm or command[0].rpartition("/")[2],
            "/proc/812/cmdline": "\0".join((*command, "")),
            "/proc/812/status": "Name:\tx\nUid:\t0\t0\t0\t0\nNSpid:\t812\n",
        }
    for path, text in files.items():
        file = root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return Kubelet(root, expected=True)


def cgroups(mount: Path, group: str) -> Path:
    """Make a folder like cgroup v2 with one group."""
    (mount / group.lstrip("/")).mkdir(parents=True)
    (mount / "cgroup.controllers").write_text("cpuset cpu memory pids\n")
    return mount


RESERVED_0_1: dict[str, tuple[Mapping[str, str], tuple[str, ...], str]] = {
    "a flag with underscores": ({}, ("kubelet", "--reserved_cpus=0-1"), ""),
    "a flag of two words with underscores": ({}, ("kubelet", "--reserved_cpus", "0-1"), ""),
    "a configuration named by a flag with underscores": (
        {"/etc/k/drop-ins/10.conf": RESERVES},
        ("kubelet", "--config_dir=/etc/k/drop-ins"),
        "",
    ),
    "JSON with tabs": (
        {CONFIG: '{\n\t"kind": "KubeletConfiguration",\n\t"reservedSystemCPUs": "0-1"\n}\n'},
        ("kubelet", f"--config={CONFIG}"),
        "",
    ),
    "JSON that ends with a comma": (
        {CONFIG: '{\n\t"reservedSystemCPUs": "0-1",\n}\n'},
        ("kubelet", f"--config={CONFIG}"),
        "",
    ),
    "YAML with a tab after a colon": (
        {CONFIG: 'reservedSystemCPUs:\t"0-1"\t# two\n'},
        ("kubelet", f"--config={CONFIG}"),
        "",
    ),
    "a closing ---": ({CONFIG: f"---\n{RESERVES}---\n"}, ("kubelet", f"--config={CONFIG}"), ""),
    "a second document, which is not read": (
        {CONFIG: f"{RESERVES}---\nkind: [\n"},
        ("kubelet", f"--config={CONFIG}"),
        "",
    ),
    "a plain =": (
        {CONFIG: f"{RESERVES}staticPodURLHeader: {{a: [=]}}\n"},
        ("kubelet", f"--config={CONFIG}"),
        "",
    ),
    "a key that is used twice, of which the last counts": (
        {CONFIG: f'reservedSystemCPUs: "7"\n{RESERVES}'},
        ("kubelet", f"--config={CONFIG}"),
        "",
    ),
    "an empty file and a drop-in": (
        {CONFIG: "# nothing\n", "/etc/k/10.conf": RESERVES},
        ("kubelet", f"--config={CONFIG}", "--config-dir=/etc/k"),
        "",
    ),
    "k3s, an argument with dashes": (
        {},
        ("/usr/local/bin/k3s", "server", "--kubelet-arg", "--reserved-cpus=0-1"),
        "k3s-server",
    ),
    "k3s, an argument with dashes and =": (
        {},
        ("/usr/local/bin/k3s", "agent", "--kubelet-arg=--reserved_cpus=0-1"),
        "k3s-agent",
    ),
    "k3s, drop-ins": ({f"{K3S}/10-my.conf": RESERVES}, ("k3s", "server"), "k3s-server"),
    "k3s, another folder of data": (
        {"/data/k3s/agent/etc/kubelet.conf.d/10-my.conf": RESERVES},
        ("k3s", "server", "--data-dir", "/data/k3s"),
        "k3s-server",
    ),
    "k3s, another folder of data with =": (
        {"/data/k3s/agent/etc/kubelet.conf.d/10-my.conf": RESERVES},
        ("k3s", "server", "-d=/data/k3s"),
        "k3s-server",
    ),
    "k3s, its own configuration": (
        {"/etc/rancher/k3s/config.yaml": "kubelet-arg:\n- max-pods=250\n- reserved-cpus=0-1\n"},
        ("k3s", "agent"),
        "k3s-agent",
    ),
    "k3s, one argument in its own configuration": (
        {"/etc/rancher/k3s/config.yaml": "kubelet-arg: reserved-cpus=0-1\n"},
        ("k3s", "agent"),
        "k3s-agent",
    ),
    "k3s, a configuration elsewhere": (
        {"/srv/k3s.yaml": "kubelet-arg: [reserved-cpus=0-1]\n"},
        ("k3s", "agent", "--config", "/srv/k3s.yaml"),
        "k3s-agent",
    ),
    "k3s, drop-ins of its own configuration": (
        {
            "/etc/rancher/k3s/config.yaml": "kubelet-arg: [reserved-cpus=7]\ndata-dir: /data\n",
            "/etc/rancher/k3s/config.yaml.d/10.yaml": "kubelet-arg: [reserved-cpus=0-1]\n",
            "/etc/rancher/k3s/config.yaml.d/20.yaml": "kubelet-arg+: [max-pods=250]\n",
        },
        ("k3s", "agent"),
        "k3s-agent",
    ),
    "k3s, a folder of data in its own configuration": (
        {
            "/etc/rancher/k3s/config.yaml": "data-dir: /data\n",
            "/data/agent/etc/kubelet.conf.d/10.conf": RESERVES,
        },
        ("k3s", "agent"),
        "k3s-agent",
    ),
    "k3s, whose command line is hidden but in its unit": (
        {
            "/etc/systemd/system/k3s.service": "[Service]\nExecStart=/usr/local/bin/k3s \\\n"
            "    server \\\n\t'--kubelet-arg=reserved-cpus=0-1' \\\n\n[Install]\n"
        },
        ("/usr/local/bin/k3s server", "", "", ""),
        "k3s-server",
    ),
    "k3s, whose command line is hidden, with drop-ins": (
        {f"{K3S}/10-my.conf": RESERVES},
        ("/usr/local/bin/k3s agent", "", ""),
        "k3s-agent",
    ),
    "RKE2": (
        {"/var/lib/rancher/rke2/agent/etc/kubelet.conf.d/20.conf": RESERVES},
        (
            "kubelet",
            "--config-dir=/var/lib/rancher/rke2/agent/etc/kubelet.conf.d",
            "--v=2",
        ),
        "",
    ),
    "MicroShift": (
        {"/var/lib/microshift/resources/kubelet/config/config.yaml": RESERVES},
        ("/usr/bin/microshift", "run"),
        "",
    ),
    "MicroK8s": (
        {
            "/var/snap/microk8s/current/args/kubelet": "--kubeconfig=${SNAP_DATA}/k.config\n"
            "# a comment\n--reserved-cpus=0-1\n"
        },
        (
            "/snap/microk8s/7040/kubelite",
            "--scheduler-args-file=/var/snap/microk8s/current/args/kube-scheduler",
            "--kubelet-args-file=/var/snap/microk8s/current/args/kubelet",
        ),
        "",
    ),
    "MicroK8s with a configuration": (
        {
            "/var/snap/microk8s/current/args/kubelet": "--config=$SNAP_DATA/kubelet.yaml\n",
            "/var/snap/microk8s/current/kubelet.yaml": RESERVES,
        },
        ("kubelite", "--kubelet-args-file=/var/snap/microk8s/current/args/kubelet"),
        "",
    ),
}


@pytest.mark.parametrize(
    ("files", "command", "comm"), RESERVED_0_1.values(), ids=RESERVED_0_1.keys()
)
def test_the_cpus_that_a_kubelet_reserves_are_read(
    tmp_path: Path, files: Mapping[str, str], command: tuple[str, ...], comm: str
) -> None:
    kubelet = host(tmp_path, files, *command, comm=comm)
    assert kubelet.conflict() == ""
    assert kubelet.reserved() == CpuSet([0, 1])


UNKNOWN: dict[str, tuple[Mapping[str, str], tuple[str, ...], str, str]] = {
    "no program that is known": (
        {},
        ("/opt/edge/edged", "run"),
        "",
        "no process is known to run the kubelet",
    ),
    "no process at all": ({}, (), "", "no process is known to run the kubelet"),
    "k3s hides its command line": (
        {},
        ("/usr/local/bin/k3s server", "", ""),
        "k3s-server",
        "k3s hides its command line",
    ),
    "MicroShift without its configuration": (
        {},
        ("/usr/bin/microshift", "run"),
        "",
        "/var/lib/microshift/resources/kubelet/config/config.yaml cannot be read",
    ),
    "MicroK8s without its flags": ({}, ("kubelite",), "", "kubelite names no file"),
    "a configuration that is none": (
        {CONFIG: "- a\n"},
        ("kubelet", f"--config={CONFIG}"),
        "",
        "is not a KubeletConfiguration",
    ),
    "a configuration of k3s that is none": (
        {"/etc/rancher/k3s/config.yaml": "kubelet-arg: [\n"},
        ("k3s", "agent"),
        "k3s-agent",
        "/etc/rancher/k3s/config.yaml: line 2, column 1: is not YAML",
    ),
}


@pytest.mark.parametrize(("files", "command", "comm", "told"), UNKNOWN.values(), ids=UNKNOWN.keys())
def test_a_kubelet_that_is_not_understood_is_told_with_what_to_set(
    tmp_path: Path, files: Mapping[str, str], command: tuple[str, ...], comm: str, told: str
) -> None:
    """The agent then writes nothing, and the condition Ready of its NodeAllocation has the text."""
    kubelet = host(tmp_path, files, *command, comm=comm)
    problem = kubelet.conflict()
    assert told in problem
    assert "agent.reservedCpus" in problem
    assert kubelet.reserved() == CpuSet()
    kubelet = Kubelet(tmp_path, CpuSet(), expected=True)
    assert kubelet.conflict() == "", "the option says that nothing is reserved"


def test_a_machine_whose_kubelet_has_pods_is_known_to_have_one(tmp_path: Path) -> None:
    assert Kubelet(tmp_path).conflict() == ""
    (tmp_path / "var/lib/kubelet/pods").mkdir(parents=True)
    assert "no process is known to run the kubelet" in Kubelet(tmp_path).conflict()


@pytest.mark.parametrize(
    ("files", "command"),
    [
        ({CONFIG: f"{HEAD}cgroupRoot: /kubelet\n"}, ("kubelet", f"--config={CONFIG}")),
        ({CONFIG: f"{HEAD}cgroupRoot: /kubelet\n"}, ()),
        ({CONFIG: HEAD}, ("kubelet", f"--config={CONFIG}", "--cgroup_root=/kubelet")),
        ({CONFIG: f"{HEAD}cgroupRoot: kubelet\n"}, ("kubelet", f"--config={CONFIG}")),
    ],
    ids=["kind", "kind before its kubelet runs", "a flag", "without a slash"],
)
def test_the_pods_of_kind_are_found_where_its_kubelet_puts_them(
    tmp_path: Path, files: Mapping[str, str], command: tuple[str, ...]
) -> None:
    host(tmp_path / "host", files, *command)
    mount = cgroups(tmp_path / "cgroup", "/kubelet.slice/kubelet-kubepods.slice")
    _, layout = HostPaths(mount, tmp_path / "host").pods()
    assert (layout.driver, layout.pods) == ("systemd", "/kubelet.slice/kubelet-kubepods.slice")


def test_an_option_outranks_the_cgroup_root_of_the_kubelet(tmp_path: Path) -> None:
    host(tmp_path / "host", {CONFIG: f"{HEAD}cgroupRoot: /kubelet\n"})
    mount = cgroups(tmp_path / "cgroup", "/kubepods")
    _, layout = HostPaths(mount, tmp_path / "host", root="/").pods()
    assert layout.pods == "/kubepods"


def test_a_configuration_that_cannot_be_read_leaves_the_root(tmp_path: Path) -> None:
    host(tmp_path / "host", {}, "kubelet", "--config=/elsewhere")
    mount = cgroups(tmp_path / "cgroup", "/kubepods")
    _, layout = HostPaths(mount, tmp_path / "host").pods()
    assert layout.pods == "/kubepods"
