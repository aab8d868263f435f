"""Pods' cgroups are found by the names that kubelet and runtimes give them.

The names are those seen on nodes with each driver and runtime; kubelet
``pkg/kubelet/cm/cgroup_manager_linux.go`` and runc's ``ExpandSlice`` define them.
"""

import errno
from pathlib import Path

import pytest

from pod_groups import QosClass, pod_group
from walras_agent.daemon.node import HostPaths, NodeComponents
from walras_agent.journal import Journal
from walras_agent.kubepods import Driver, Layout, PodGroups
from walras_agent.tree import (
    CgroupError,
    CgroupFile,
    CgroupTree,
    TreeError,
    descendants,
    read_cpu_seconds,
)

UID = "0d5b2b6e-7a9c-4d0e-9b1f-3c2a1d4e5f60"
ESCAPED = UID.replace("-", "_")
ID = "4f1c" * 16


def tree_v2(mount: Path, *groups: str) -> CgroupTree:
    mount.mkdir(exist_ok=True)
    (mount / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    for group in groups:
        (mount / group.lstrip("/")).mkdir(parents=True)
    return CgroupTree.at(mount)


@pytest.mark.parametrize(
    ("driver", "root", "qos", "group"),
    [
        ("cgroupfs", "/", "Guaranteed", f"/kubepods/pod{UID}"),
        ("cgroupfs", "/", "Burstable", f"/kubepods/burstable/pod{UID}"),
        ("cgroupfs", "/kubelet", "BestEffort", f"/kubelet/kubepods/besteffort/pod{UID}"),
        ("systemd", "/", "Guaranteed", f"/kubepods.slice/kubepods-pod{ESCAPED}.slice"),
        (
            "systemd",
            "/",
            "Burstable",
            f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{ESCAPED}.slice",
        ),
        (
            "systemd",
            "/my-kubelet",
            "BestEffort",
            (
                "/my_kubelet.slice/my_kubelet-kubepods.slice/my_kubelet-kubepods-besteffort.slice/"
                f"my_kubelet-kubepods-besteffort-pod{ESCAPED}.slice"
            ),
        ),
    ],
)
def test_pod_is_found_as_the_kubelet_names_it(
    tmp_path: Path, driver: Driver, root: str, qos: QosClass, group: str
) -> None:
    layout = Layout(driver, root)
    assert layout.scan(tree_v2(tmp_path, group)) == (PodGroups(UID, group, ()),)
    assert pod_group(layout, UID, qos) == group
    assert (group.rpartition("/")[0] in layout.classes) == (qos != "Guaranteed")


def test_pods_of_every_class_are_found_with_their_containers(tmp_path: Path) -> None:
    layout = Layout("systemd")
    classes: tuple[QosClass, ...] = ("Guaranteed", "Burstable", "BestEffort")
    pods = {qos: pod_group(layout, UID, qos) for qos in classes}
    other = "f" * 64
    tree = tree_v2(
        tmp_path,
        f"{pods['Guaranteed']}/cri-containerd-{ID}.scope/init.scope",
        f"{pods['Guaranteed']}/cri-containerd-{other}.scope",
        f"{pods['Burstable']}/some-runtime.scope",
        f"{pods['Burstable']}/crio-conmon-{ID}.scope",
        f"{pods['BestEffort']}",
    )
    assert layout.scan(tree) == (
        PodGroups(
            UID,
            pods["Guaranteed"],
            (
                f"{pods['Guaranteed']}/cri-containerd-{ID}.scope",
                f"{pods['Guaranteed']}/cri-containerd-{other}.scope",
            ),
        ),
        PodGroups(
            UID,
            pods["Burstable"],
            (
                f"{pods['Burstable']}/crio-conmon-{ID}.scope",
                f"{pods['Burstable']}/some-runtime.scope",
            ),
        ),
        PodGroups(UID, pods["BestEffort"], ()),
    )


@pytest.mark.system
def test_agent_raises_weights_of_the_classes_of_its_kubelet(tmp_path: Path) -> None:
    pod = pod_group(Layout("systemd"), UID, "BestEffort")
    tree_v2(tmp_path, f"{pod}/cri-containerd-{ID}.scope")
    (tmp_path / "kubepods.slice" / "cpuset.cpus.effective").write_text("0-1023\n")
    node = NodeComponents.open(HostPaths(tmp_path), Journal.in_memory())
    assert node.reconciler.enforcer.classes == (
        "/kubepods.slice/kubepods-burstable.slice",
        "/kubepods.slice/kubepods-besteffort.slice",
    )


def test_static_pod_goes_by_the_hash_of_its_manifest(tmp_path: Path) -> None:
    digest = "8ea1b8e2b6d1c1f0a1a2a3a4a5a6a7a8"
    tree = tree_v2(tmp_path, f"/kubepods/burstable/pod{digest}/{ID}")
    layout = Layout.find(tree)
    (found,) = layout.scan(tree)
    assert (found.uid, found.group) == (digest, pod_group(layout, digest))


def test_driver_is_told_by_the_group_of_all_pods(tmp_path: Path) -> None:
    assert Layout.find(tree_v2(tmp_path / "a", "/kubepods")).driver == "cgroupfs"
    assert Layout.find(tree_v2(tmp_path / "b", "/kubepods.slice")).driver == "systemd"
    nested = tree_v2(tmp_path / "c", "/kubelet.slice/kubelet-kubepods.slice")
    assert Layout.find(nested, "/kubelet").driver == "systemd"
    with pytest.raises(TreeError, match="neither exists; set --cgroup-driver"):
        Layout.find(nested)
    slice_ = f"/kubepods.slice/kubepods-pod{ESCAPED}.slice"
    container = f"{slice_}/cri-containerd-{ID}.scope"
    both = tree_v2(tmp_path / "both", f"/kubepods/pod{UID}", container)
    assert Layout.find(both).driver == "systemd", "the other one is of no use"
    empty = tree_v2(tmp_path / "empty", f"/kubepods/pod{UID}", slice_)
    with pytest.raises(TreeError, match="both exist, and neither has containers"):
        Layout.find(empty)
    used = tree_v2(tmp_path / "used", f"/kubepods/pod{UID}/{ID}", container)
    with pytest.raises(TreeError, match="both exist, and both have containers"):
        Layout.find(used)


def test_controllers_of_v1_are_found_each_at_its_own_mount(tmp_path: Path) -> None:
    for controller in ("cpuset", "cpu,cpuacct", "memory"):
        (tmp_path / controller / "kubepods/pod1").mkdir(parents=True)
    for link in ("cpu", "cpuacct"):
        (tmp_path / link).symlink_to("cpu,cpuacct")
    tree = CgroupTree.at(tmp_path)
    assert tree.version == 1
    group = "/kubepods/pod1"
    assert tree.folder("memory", group) == str(tmp_path / "memory/kubepods/pod1")
    assert Path(tree.folder("cpuacct", group)).resolve() == tmp_path / "cpu,cpuacct/kubepods/pod1"


def test_missing_controller_is_named(tmp_path: Path) -> None:
    (tmp_path / "cpuset").mkdir()
    with pytest.raises(TreeError, match=r"no cgroup controller cpu, memory; mount the host's"):
        CgroupTree.at(tmp_path)
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    with pytest.raises(TreeError, match=r"no cgroup controller cpuset"):
        CgroupTree.at(tmp_path)


def test_groups_below_come_parents_first_and_gone_ones_are_none(tmp_path: Path) -> None:
    tree = tree_v2(tmp_path, "/a/b/c", "/a/d")
    assert list(descendants(tree, "/a")) == ["/a/b", "/a/b/c", "/a/d"]
    assert list(descendants(tree, "/gone")) == []
    assert tree.identity("/gone") is None


def test_group_made_again_is_another_one(tmp_path: Path) -> None:
    tree = tree_v2(tmp_path, "/a", "/b")
    assert tree.identity("/a") not in {tree.identity("/b"), None}


def test_refusals_say_what_was_asked_and_what_may_help(tmp_path: Path) -> None:
    tree = tree_v2(tmp_path, "/a")
    gone = CgroupFile("cpuset", "/a", "cpuset.cpus")
    with pytest.raises(CgroupError, match=r"^/a/cpuset\.cpus cannot be read: No such file") as read:
        tree.read(gone)
    with pytest.raises(
        CgroupError, match=r"^/a/cpuset\.cpus does not accept '1': No such"
    ) as write:
        tree.write(gone, "1")
    assert read.value.kind == write.value.kind == "gone"
    assert not (tmp_path / "a/cpuset.cpus").exists()
    assert CgroupError(gone, errno.EBUSY, "1").kind == "transient"
    assert CgroupError(gone, errno.EINVAL, "1").kind == "permanent"


def test_files_are_read_without_their_end_and_written_as_they_are(tmp_path: Path) -> None:
    tree = tree_v2(tmp_path, "/a")
    (tmp_path / "a/cpu.max").write_text("max 100000\n")
    setting = CgroupFile("cpu", "/a", "cpu.max")
    assert tree.read(setting) == "max 100000"
    tree.write(setting, "50000 100000")
    assert tree.read(setting) == "50000 100000"


def test_cpu_time_is_read_in_seconds(tmp_path: Path) -> None:
    v2 = tree_v2(tmp_path / "v2", "/a")
    stat = "usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\n"
    (tmp_path / "v2/a/cpu.stat").write_text(stat)
    v1 = CgroupTree(1, {"cpuacct": str(tmp_path / "v1")})
    (tmp_path / "v1/a").mkdir(parents=True)
    (tmp_path / "v1/a/cpuacct.usage").write_text("2500000000\n")
    assert read_cpu_seconds(v2, "/a") == read_cpu_seconds(v1, "/a") == 2.5
    with pytest.raises(CgroupError, match=r"^/gone/cpu\.stat cannot be read"):
        read_cpu_seconds(v2, "/gone")
