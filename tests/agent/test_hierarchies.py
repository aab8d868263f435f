"""Cgroup hierarchies are found in texts that real systems show in /proc."""

from pathlib import Path

from walras_agent.local.hierarchies import Hierarchy, parse_hierarchies, read_hierarchies

MOUNT_V1 = "32 31 0:29 {root} {point} rw,relatime shared:5 - cgroup cgroup {options}"
MOUNT_V2 = "41 31 0:38 {root} /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate"


def test_v1_controllers_are_found_at_their_own_mounts() -> None:
    mounts = [
        "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755",
        MOUNT_V1.format(root="/", point="/sys/fs/cgroup/cpuset", options="rw,cpuset"),
        MOUNT_V1.format(root="/", point="/sys/fs/cgroup/cpu,cpuacct", options="rw,cpu,cpuacct"),
    ]

    found = parse_hierarchies("\n".join(mounts), "4:cpu,cpuacct:/user/me\n3:cpuset:/\n2:pids:/")

    both, cpuset = Path("/sys/fs/cgroup/cpu,cpuacct"), Path("/sys/fs/cgroup/cpuset")
    assert found == (
        Hierarchy(1, frozenset({"cpu", "cpuacct"}), both, both / "user/me"),
        Hierarchy(1, frozenset({"cpuset"}), cpuset, cpuset),
    )


def test_v2_is_one_hierarchy_whose_files_tell_its_controllers() -> None:
    (found,) = parse_hierarchies(MOUNT_V2.format(root="/"), "0::/user.slice/session-1.scope\n")

    assert found == Hierarchy(
        2, frozenset(), Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/user.slice/session-1.scope")
    )


def test_in_a_container_that_mounts_its_own_group_paths_are_below_that() -> None:
    mount = MOUNT_V1.format(root="/docker/abc", point="/sys/fs/cgroup/cpuset", options="ro,cpuset")

    (found,) = parse_hierarchies(mount, "3:cpuset:/docker/abc/inner\n")

    assert found.own_group == Path("/sys/fs/cgroup/cpuset/inner")


def test_a_group_outside_of_the_mount_or_namespace_is_left_out() -> None:
    elsewhere = MOUNT_V2.format(root="/docker/abc")

    assert parse_hierarchies(elsewhere, "0::/docker/abcdef\n") == ()
    assert parse_hierarchies(elsewhere, "0::/\n") == ()
    assert parse_hierarchies(MOUNT_V2.format(root="/"), "0::/../../other\n") == ()


def test_a_mount_point_with_a_blank_is_unescaped() -> None:
    mount = MOUNT_V1.format(root="/", point=r"/mnt/c\040g", options="rw,cpuset")

    (found,) = parse_hierarchies(mount, "3:cpuset:/")

    assert found.mount == Path("/mnt/c g")


def test_this_process_is_listed_in_its_own_groups_here() -> None:
    hierarchies = read_hierarchies()
    assert bool(hierarchies) == ("cgroup" in Path("/proc/self/mounts").read_text("utf-8"))
    for hierarchy in hierarchies:
        assert hierarchy.own_group.is_dir()
        assert hierarchy.own_group.is_relative_to(hierarchy.mount)
