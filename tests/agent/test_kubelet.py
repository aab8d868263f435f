"""The kubelet's own CPU manager keeps the agent off; CPUs that it reserves are told to it."""

import errno
from pathlib import Path

import pytest

from walras_agent.cpuset import CpuSet
from walras_agent.kubelet import RELOAD_SECONDS, Kubelet, cpu_manager_conflict


def test_without_a_cpu_manager_the_agent_may(tmp_path: Path) -> None:
    assert cpu_manager_conflict(tmp_path) == ""


def test_policy_none_does_nothing(tmp_path: Path) -> None:
    state = tmp_path / "cpu_manager_state"
    state.write_text('{"policyName":"none","defaultCpuSet":"","checksum":1353318690}')
    assert cpu_manager_conflict(tmp_path) == ""


def test_static_policy_is_refused_with_the_way_out(tmp_path: Path) -> None:
    """It compares with what it last sent, never with the cgroup (kubernetes 138731)."""
    state = tmp_path / "cpu_manager_state"
    state.write_text('{"policyName":"static","defaultCpuSet":"0-7","checksum":1}')
    assert "'static'" in cpu_manager_conflict(tmp_path)
    assert "set cpuManagerPolicy to none" in cpu_manager_conflict(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"policy": "none"}', "\xff\xfe"])
def test_checkpoint_that_is_not_understood_is_taken_for_the_worst(
    tmp_path: Path, text: str
) -> None:
    state = tmp_path / "cpu_manager_state"
    state.write_bytes(text.encode("latin-1"))
    assert "is not a checkpoint" in cpu_manager_conflict(tmp_path)


def test_checkpoint_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "cpu_manager_state").mkdir()
    assert "cannot be read: Is a directory" in cpu_manager_conflict(tmp_path)


class Host:
    """A host's files, as a container may have them, and the agent's clock."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.now = 0.0
        self.kubelet = Kubelet(root, clock=lambda: self.now)

    def file(self, path: str, text: str) -> None:
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def process(self, pid: int, *arguments: str, comm: str = "", namespaces: str = "") -> None:
        self.file(f"/proc/{pid}/comm", (comm or arguments[0].rpartition("/")[2]) + "\n")
        self.file(f"/proc/{pid}/cmdline", "\0".join(arguments) + "\0")
        status = f"Name:\tx\nUid:\t0\t0\t0\t0\nNSpid:\t{namespaces or pid}\n"
        self.file(f"/proc/{pid}/status", status)

    def reserved(self) -> str:
        assert self.kubelet.conflict() == ""
        return str(self.kubelet.reserved())

    def conflict(self) -> str:
        conflict = self.kubelet.conflict()
        assert self.kubelet.reserved() == CpuSet()
        return conflict


@pytest.fixture
def host(tmp_path: Path) -> Host:
    (tmp_path / "proc").mkdir()
    return Host(tmp_path)


KUBEADM = "/var/lib/kubelet/config.yaml"
CONFIGURATION = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: systemd
reservedSystemCPUs: "0-1,24"
"""


def test_without_a_kubelet_nothing_is_reserved(host: Host) -> None:
    host.process(7, "/usr/bin/kubectl", "--reserved-cpus=3")
    assert host.reserved() == ""


def test_reserved_cpus_are_read_where_kubeadm_configures_them(host: Host) -> None:
    host.file(KUBEADM, CONFIGURATION)
    assert host.reserved() == "0-1,24"


def test_configuration_that_the_kubelet_names_is_read(host: Host) -> None:
    """EKS has it as JSON, and elsewhere."""
    host.file(KUBEADM, CONFIGURATION)
    host.file("/etc/kubernetes/kubelet/config.json", '{"reservedSystemCPUs": "2"}')
    host.process(7, "/usr/bin/kubelet", "--config", "/etc/kubernetes/kubelet/config.json", "--v=2")
    assert host.reserved() == "2"


def test_files_of_the_configuration_folder_have_the_last_word(host: Host) -> None:
    host.file(KUBEADM, CONFIGURATION)
    host.file("/etc/kubelet.d/20-more.conf", 'reservedSystemCPUs: "5"')
    host.file("/etc/kubelet.d/10-less.conf", 'reservedSystemCPUs: "4"')
    host.file("/etc/kubelet.d/30-other.conf", "maxPods: 250")
    host.file("/etc/kubelet.d/readme.txt", "{")
    host.process(7, "kubelet", f"--config={KUBEADM}", "--config-dir=/etc/kubelet.d")
    assert host.reserved() == "5"


@pytest.mark.parametrize("flag", [("--reserved-cpus=6-7",), ("--reserved-cpus", "6-7")])
def test_flag_of_the_kubelet_outranks_its_configuration(host: Host, flag: tuple[str, ...]) -> None:
    host.file(KUBEADM, CONFIGURATION)
    host.process(1, "/sbin/init")
    host.process(7, "/usr/local/bin/kubelet", "--v=2", *flag)
    assert host.reserved() == "6-7"


def test_configuration_without_reserved_cpus_reserves_none(host: Host) -> None:
    host.file(KUBEADM, "kind: KubeletConfiguration\n")
    assert host.reserved() == ""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: b: c", "is not YAML"),
        ("just words", "is not a KubeletConfiguration"),
        ('reservedSystemCPUs: "one"', "reservedSystemCPUs is not a list of CPUs"),
    ],
)
def test_configuration_that_is_not_understood_is_a_conflict(
    host: Host, text: str, told: str
) -> None:
    host.file(KUBEADM, text)
    assert told in host.conflict()


def test_configuration_that_cannot_be_found_is_a_conflict_until_it_can(host: Host) -> None:
    host.process(7, "kubelet", "--config=/etc/kubelet.yaml")
    assert host.conflict() == (
        "the kubelet's configuration /etc/kubelet.yaml cannot be read (No such file or directory), "
        "so the CPUs that it reserves are unknown; mount its folder (agent.kubelet.configFolder), "
        "or set the agent's --reserved-cpus (agent.reservedCpus)"
    )
    host.file("/etc/kubelet.yaml", CONFIGURATION)
    host.now += RELOAD_SECONDS
    assert host.reserved() == "0-1,24"


def test_without_the_configuration_an_option_says_what_is_reserved(host: Host) -> None:
    host.process(7, "kubelet", "--config=/etc/kubelet.yaml")
    host.kubelet.given = CpuSet([3])
    assert host.reserved() == "3"


@pytest.mark.parametrize("pid", [1, 7])
def test_files_that_are_not_mounted_are_read_under_the_root_of_a_process(
    host: Host, pid: int
) -> None:
    """GKE and EKS keep them in folders of their own; a kubelet may have a root of its own."""
    host.process(1, "/sbin/init")
    host.process(7, "kubelet", "--config=/home/kubernetes/kubelet-config.yaml")
    host.file(f"/proc/{pid}/root/home/kubernetes/kubelet-config.yaml", CONFIGURATION)
    assert host.reserved() == "0-1,24"


def test_a_kubelet_with_a_folder_of_its_own_is_asked_there_for_its_policy(host: Host) -> None:
    host.process(7, "kubelet", "--root-dir=/var/lib/k0s/kubelet")
    assert host.reserved() == ""
    host.file("/proc/7/root/var/lib/k0s/kubelet/cpu_manager_state", '{"policyName":"static"}')
    host.now += RELOAD_SECONDS
    assert "'static'" in host.conflict()


def test_without_the_right_to_look_there_the_mounted_folder_counts(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without SYS_PTRACE; as with the value agent.kubelet.folder."""
    host.process(7, "kubelet", "--root-dir=/var/lib/k0s/kubelet")
    read = Path.read_bytes

    def refuse(path: Path) -> bytes:
        if path.is_relative_to(host.root / "proc" / "7" / "root"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert "cannot be read: Permission denied; mount the kubelet's folder" in host.conflict()
    host.file("/var/lib/kubelet/cpu_manager_state", '{"policyName":"none"}')
    host.now += RELOAD_SECONDS
    assert host.conflict() == ""
    host.file("/var/lib/kubelet/cpu_manager_state", '{"policyName":"static"}')
    assert "'static'" in host.conflict()


def test_the_kubelet_inside_k3s_is_configured_by_its_arguments_and_folder(host: Host) -> None:
    host.process(7, "/usr/local/bin/k3s", "agent", comm="k3s-agent")
    assert host.reserved() == ""
    folder = "/proc/7/root/var/lib/rancher/k3s/agent/etc/kubelet.conf.d"
    host.file(f"{folder}/00-k3s-defaults.conf", "reservedSystemCPUs: '0'")
    host.now += RELOAD_SECONDS
    assert host.reserved() == "0"
    host.process(7, "k3s", "agent", "--kubelet-arg", "reserved-cpus=1", comm="k3s-agent")
    host.now += RELOAD_SECONDS
    assert host.reserved() == "1"


def test_a_pod_cannot_pass_its_program_for_the_kubelet(host: Host) -> None:
    host.process(6, "kubelet", "--reserved-cpus=0-63", namespaces="6\t1")
    host.process(7, "kubelet", "--reserved-cpus=2")
    assert host.reserved() == "2"


def test_a_kubelet_that_restarts_keeps_its_reserved_cpus(host: Host) -> None:
    host.process(7, "kubelet", "--reserved-cpus=2")
    assert host.reserved() == "2"
    host.process(7, "sleep")
    host.now += RELOAD_SECONDS
    assert host.reserved() == "2"
    host.process(8, "kubelet", "--reserved-cpus=3")
    host.now += RELOAD_SECONDS
    assert host.reserved() == "3"
