"""The kubelet's own CPU manager keeps the agent off; CPUs that it reserves are told to it."""

from pathlib import Path

import pytest

from walras_agent.kubelet import KubeletError, cpu_manager_conflict, reserved_cpus


def test_without_a_cpu_manager_the_agent_may(tmp_path: Path) -> None:
    assert cpu_manager_conflict(tmp_path / "cpu_manager_state") == ""


def test_policy_none_does_nothing(tmp_path: Path) -> None:
    state = tmp_path / "cpu_manager_state"
    state.write_text('{"policyName":"none","defaultCpuSet":"","checksum":1353318690}')
    assert cpu_manager_conflict(state) == ""


def test_static_policy_is_refused_with_the_way_out(tmp_path: Path) -> None:
    """It compares with what it last sent, never with the cgroup (kubernetes 138731)."""
    state = tmp_path / "cpu_manager_state"
    state.write_text('{"policyName":"static","defaultCpuSet":"0-7","checksum":1}')
    assert "'static'" in cpu_manager_conflict(state)
    assert "set cpuManagerPolicy to none" in cpu_manager_conflict(state)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"policy": "none"}', "\xff\xfe"])
def test_checkpoint_that_is_not_understood_is_taken_for_the_worst(
    tmp_path: Path, text: str
) -> None:
    state = tmp_path / "cpu_manager_state"
    state.write_bytes(text.encode("latin-1"))
    assert "is not a checkpoint" in cpu_manager_conflict(state)


def test_checkpoint_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    assert "cannot be read: Is a directory" in cpu_manager_conflict(tmp_path)


class Host:
    """A host's files, as a container may have them."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def file(self, path: str, text: str) -> None:
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def process(self, pid: int, *arguments: str) -> None:
        self.file(f"/proc/{pid}/comm", arguments[0].rpartition("/")[2] + "\n")
        self.file(f"/proc/{pid}/cmdline", "\0".join(arguments) + "\0")

    def reserved(self) -> str:
        return str(reserved_cpus(self.root))


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
def test_configuration_that_is_not_understood_is_an_error(host: Host, text: str, told: str) -> None:
    host.file(KUBEADM, text)
    with pytest.raises(KubeletError, match=told):
        host.reserved()


def test_configuration_that_is_not_mounted_is_an_error_with_the_way_out(host: Host) -> None:
    host.process(7, "kubelet", "--config=/etc/kubelet.yaml")
    with pytest.raises(
        KubeletError, match=r"kubelet\.yaml cannot be read: No such file.* mount it"
    ):
        host.reserved()
