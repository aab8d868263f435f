"""Everything goes back to what it was, in an order that the kernel accepts, wherever it is cut off.

The kernel is the model of it (tests/support/model_kernel.py), which refuses and kills as the
kernel does.
"""

import errno
import json
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manual import restore_by_hand
from model_kernel import MIB, Memory, ModelKernel, Stopped
from walras_agent.cpuset import CpuSet
from walras_agent.journal import Journal, JournalError, Original
from walras_agent.restore import restore
from walras_agent.tree import CgroupError, CgroupFile, Controller

Version = Literal[1, 2]
CPUS = 6
CONTROLLERS: tuple[Controller, ...] = ("cpuset", "cpu", "memory")


def setting(path: str) -> CgroupFile:
    group, _, file = path.rpartition("/")
    (controller,) = (name for name in CONTROLLERS if file.startswith(f"{name}."))
    return CgroupFile(controller, group, file)


def record(journal: Journal, kernel: ModelKernel, *changes: tuple[str, str]) -> None:
    """Record files and values in the journal, as the agent does before it writes them."""
    journal.record([(setting(path), value) for path, value in changes], kernel)


class Node:
    """A kernel on which an agent changes files, with a journal."""

    def __init__(self, version: Version, *, nested: bool = False) -> None:
        self.kernel = ModelKernel(version, cpus=CPUS, nested=nested)
        self.journal = Journal.in_memory()

    def change(self, *changes: tuple[str, str]) -> None:
        record(self.journal, self.kernel, *changes)
        for path, value in changes:
            self.kernel.write(setting(path), value)
        self.kernel.writes.clear()

    def read(self, path: str) -> str:
        return self.kernel.read(setting(path))

    def writes(self) -> list[str]:
        return [f"{write.setting} {write.value}" for write in self.kernel.writes]


def test_only_what_is_asked_for_is_put_back() -> None:
    node = Node(2)
    for group in ("/a", "/b"):
        node.kernel.make(group, tasks=1)
        node.change((f"{group}/cpu.weight", "7"))

    done = restore(node.journal, node.kernel, {setting("/a/cpu.weight")})

    assert done.restored == (setting("/a/cpu.weight"),)
    assert (node.read("/a/cpu.weight"), node.read("/b/cpu.weight")) == ("100", "7")
    assert set(node.journal.originals) == {setting("/b/cpu.weight")}


def test_v1_cpusets_widen_from_the_top_and_narrow_from_below() -> None:
    node = Node(1)
    node.kernel.make("/p", cpus="0-2")
    node.kernel.make("/p/c", cpus="0-1", tasks=1)
    node.change(("/p/cpuset.cpus", "0-5"), ("/p/c/cpuset.cpus", "3-4"), ("/p/cpuset.cpus", "3-4"))

    restore(node.journal, node.kernel)

    assert node.writes() == [
        "/p/cpuset.cpus 0-4",
        "/p/c/cpuset.cpus 0-1,3-4",
        "/p/c/cpuset.cpus 0-1",
        "/p/cpuset.cpus 0-2",
    ]


@pytest.mark.parametrize("nested", [False, True])
def test_v2_cpuset_that_was_empty_is_as_good_as_empty_again(nested: bool) -> None:
    node = Node(2, nested=nested)
    for group in ("/p/busy", "/p/idle"):
        node.kernel.make(group, tasks=int(group == "/p/busy"))
        node.change((f"{group}/cpuset.cpus", "1"))
    node.change(("/p/cpuset.cpus", "1-2"))

    done = restore(node.journal, node.kernel)

    assert len(done.restored) == 3
    assert node.read("/p/idle/cpuset.cpus") == ""
    assert node.read("/p/busy/cpuset.cpus") == "0-5", "the kernel does not have it emptied"
    node.kernel.set_by_others(setting("/p/cpuset.cpus"), "0-5")
    assert node.read("/p/busy/cpuset.cpus.effective") == "0-5"
    assert node.journal.originals == {}


def test_v2_cpuset_that_was_empty_has_cpus_that_come_online_later() -> None:
    node = Node(2)
    node.kernel.make("/p/busy", tasks=1)
    node.change(("/p/busy/cpuset.cpus", "1"))
    node.kernel.offline([3])

    restore(node.journal, node.kernel, possible=CpuSet(range(CPUS)))

    assert node.read("/p/busy/cpuset.cpus.effective") == "0-2,4-5"
    node.kernel.online([3])
    assert node.read("/p/busy/cpuset.cpus.effective") == "0-5"


def test_v1_cpuset_is_put_back_without_cpus_that_went_off() -> None:
    node = Node(1)
    node.kernel.make("/p", cpus="0-4", tasks=1)
    node.change(("/p/cpuset.cpus", "0-1"))
    node.kernel.offline([4])

    assert restore(node.journal, node.kernel).restored == (setting("/p/cpuset.cpus"),)
    assert node.read("/p/cpuset.cpus") == "0-3"


def test_v2_group_that_others_emptied_narrows_after_its_children() -> None:
    """The journal of an earlier version does not tell what others wrote."""
    node = Node(2, nested=True)
    node.kernel.make("/p", cpus="0-3")
    node.kernel.make("/p/c", cpus="1")
    node.change(("/p/cpuset.cpus", "0-4"), ("/p/c/cpuset.cpus", "4"))
    known = node.journal.originals.values()
    node.journal = Journal.in_memory([each._replace(written=None) for each in known])
    for group, value in (("/p/c", ""), ("/p", ""), ("/p/c", "4")):
        node.kernel.set_by_others(setting(f"{group}/cpuset.cpus"), value)

    assert len(restore(node.journal, node.kernel).restored) == 2
    assert node.writes()[-2:] == ["/p/c/cpuset.cpus 1", "/p/cpuset.cpus 0-3"]
    assert all(write.refused is None for write in node.kernel.writes)


@pytest.mark.parametrize(
    ("version", "file", "original", "now"),
    [
        (1, "cpuset.cpus", "0-3", "1"),
        (1, "cpuset.cpus", "1", "0-3"),
        (1, "cpu.cfs_quota_us", "-1", "50000"),
        (2, "cpu.max", "max 200000", "50000 100000"),
        (1, "memory.limit_in_bytes", str(64 * MIB), str(256 * MIB)),
        (1, "cpu.shares", "1024", "2"),
    ],
)
def test_one_write_does_where_nothing_else_is_in_the_way(
    version: Version, file: str, original: str, now: str
) -> None:
    node = Node(version)
    node.kernel.make("/c", tasks=1)
    node.kernel.set_by_others(setting(f"/c/{file}"), original)
    node.change((f"/c/{file}", now))

    restore(node.journal, node.kernel)

    assert node.writes() == [f"/c/{file} {original}"]


def sets(within: CpuSet) -> st.SearchStrategy[CpuSet]:
    return st.sets(st.sampled_from(list(within)), min_size=1).map(CpuSet)


@st.composite
def trees(draw: st.DrawFn) -> dict[str, CpuSet]:
    """Draw CPUs of nested groups, each within those of its parent, as v1 demands."""
    found = {"": CpuSet(range(CPUS))}
    for group in ("/p", "/p/q", "/p/q/c", "/p/d", "/e"):
        found[group] = draw(sets(found[group.rpartition("/")[0]]))
    del found[""]
    return found


@given(before=trees(), after=trees(), stop=st.integers(0, 12), kind=st.sampled_from("12n"))
def test_any_cpusets_go_back_even_if_stopped_on_the_way(
    before: dict[str, CpuSet], after: dict[str, CpuSet], stop: int, kind: str
) -> None:
    node = Node(1 if kind == "1" else 2, nested=kind == "n")
    for group, cpus in before.items():
        node.kernel.make(group, cpus=str(cpus), tasks=1)
    files = {group: f"{group}/cpuset.cpus" for group in before}
    union = [(files[group], str(CpuSet(range(CPUS)))) for group in before]
    node.change(*union, *((files[group], str(after[group])) for group in reversed(after)))

    node.kernel.stop_after(stop)
    try:
        restore(node.journal, node.kernel)
    except Stopped:
        assert len(node.journal.originals) == len(before), "nothing is forgotten too early"
        node.kernel.go_on()
        restore(node.journal, node.kernel)

    assert all(write.refused is None for write in node.kernel.writes)
    assert {group: node.read(files[group]) for group in files} == {
        group: str(cpus) for group, cpus in before.items()
    }
    assert node.journal.originals == {}


QUOTAS_V1 = ("cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.cfs_burst_us")


def bandwidths(node: Node, group: str, quota: str, period: str, burst: str) -> None:
    values = ("-1", period, burst, quota)
    for file, value in zip((QUOTAS_V1[0], *QUOTAS_V1[1:], QUOTAS_V1[0]), values, strict=True):
        node.kernel.set_by_others(setting(f"{group}/{file}"), value)


@given(stop=st.integers(0, 12))
def test_v1_quotas_go_back_though_children_may_not_exceed_parents(stop: int) -> None:
    node = Node(1)
    node.kernel.make("/p/c", tasks=1)
    originals = {"/p": ("100000", "50000", "30000"), "/p/c": ("40000", "20000", "0")}
    for group, values in originals.items():
        bandwidths(node, group, *values)
    changes = (
        ("/p/c", ("-1", "1000000", "0")),
        ("/p", ("10000", "100000", "10000")),
        ("/p/c", ("90000", "1000000", "500")),
    )
    record(
        node.journal,
        node.kernel,
        *(
            (f"{group}/{file}", value)
            for group, values in changes
            for file, value in zip(QUOTAS_V1, values, strict=True)
        ),
    )
    for group, values in changes:
        bandwidths(node, group, *values)

    node.kernel.stop_after(stop)
    try:
        restore(node.journal, node.kernel)
    except Stopped:
        node.kernel.go_on()
        restore(node.journal, node.kernel)

    for group, values in originals.items():
        assert tuple(node.read(f"{group}/{file}") for file in QUOTAS_V1) == values
    assert all(write.refused is None for write in node.kernel.writes)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("max 100000", "0"), ("50000 100000", "50000")),
        (("50000 100000", "50000"), ("max 200000", "0")),
        (("50000 100000", "20000"), ("90000 100000", "70000")),
        (("90000 100000", "70000"), ("50000 100000", "20000")),
    ],
)
def test_v2_quota_and_burst_go_back_in_either_direction(
    before: tuple[str, str], after: tuple[str, str]
) -> None:
    node = Node(2)
    node.kernel.make("/c", tasks=1)
    files = ("/c/cpu.max", "/c/cpu.max.burst")
    for file, value in zip(files, before, strict=True):
        node.kernel.set_by_others(setting(file), value)
    node.change((files[0], "max"), (files[1], after[1]), (files[0], after[0]))

    done = restore(node.journal, node.kernel)

    assert tuple(node.read(file) for file in files) == before
    assert set(done.restored) == {setting(file) for file in files}
    assert not done.failed


@pytest.mark.parametrize(("first", "then"), [(64, 256), (256, 64)])
def test_v1_limits_with_and_without_swap_go_back_together(first: int, then: int) -> None:
    node = Node(1)
    node.kernel.make("/c", tasks=1)
    files = ("/c/memory.memsw.limit_in_bytes", "/c/memory.limit_in_bytes")
    for file in reversed(files):
        node.kernel.set_by_others(setting(file), str(first * MIB))
    for file in files if then > first else reversed(files):
        node.change((file, str(then * MIB)))

    done = restore(node.journal, node.kernel)

    assert [node.read(file) for file in files] == [str(first * MIB)] * 2
    assert set(done.restored) == {setting(file) for file in files}
    assert not done.failed


LIMITS: list[tuple[Version, str]] = [
    (1, "/c/memory.limit_in_bytes"),
    (2, "/c/memory.max"),
    (2, "/c/memory.high"),
]


@pytest.mark.parametrize(("version", "file"), LIMITS)
def test_a_limit_is_not_lowered_to_what_is_in_use(version: Version, file: str) -> None:
    node = Node(version)
    memory = Memory(anonymous=80 * MIB, growth=MIB)
    node.kernel.make("/c", tasks=1, memory=memory)
    node.kernel.set_by_others(setting(file), str(100 * MIB))
    node.change((file, str(500 * MIB)))

    done = restore(node.journal, node.kernel, headroom=32 * MIB)

    used = memory.anonymous
    assert done.pending == {
        setting(file): (
            f"{used} bytes are in use; a limit of {100 * MIB} needs {32 * MIB} bytes of headroom"
        )
    }
    assert node.writes() == []
    assert set(node.journal.originals) == {setting(file)}

    memory.anonymous = 60 * MIB
    assert restore(node.journal, node.kernel, headroom=32 * MIB).restored == (setting(file),)
    assert node.read(file) == str(100 * MIB)
    assert node.kernel.oom_kills == []


def test_v1_limit_with_swap_waits_for_the_one_without() -> None:
    node = Node(1)
    node.kernel.make("/c", tasks=1, memory=Memory(anonymous=60 * MIB))
    lower, upper = "/c/memory.limit_in_bytes", "/c/memory.memsw.limit_in_bytes"
    node.kernel.set_by_others(setting(lower), str(70 * MIB))
    node.kernel.set_by_others(setting(upper), str(100 * MIB))
    node.change((upper, str(500 * MIB)), (lower, str(500 * MIB)))

    done = restore(node.journal, node.kernel, headroom=32 * MIB)

    assert done.pending[setting(upper)] == f"waits for {lower}"
    assert set(done.pending) == {setting(lower), setting(upper)}
    assert not done.failed
    assert node.writes() == []


@pytest.mark.parametrize("original", [100 * MIB, None])
@pytest.mark.parametrize(("version", "file"), LIMITS)
def test_a_limit_is_raised_whatever_is_in_use(
    version: Version, file: str, original: int | None
) -> None:
    node = Node(version)
    node.kernel.make("/c", tasks=1, memory=Memory(anonymous=80 * MIB))
    if original:
        node.kernel.set_by_others(setting(file), str(original))
    before = node.read(file)
    node.change((file, str(90 * MIB)))

    assert restore(node.journal, node.kernel).restored == (setting(file),)
    assert node.read(file) == before


def test_groups_that_are_gone_or_made_again_are_left_alone() -> None:
    node = Node(2)
    for group in ("/gone", "/again"):
        node.kernel.make(group, tasks=1)
        node.change((f"{group}/cpu.weight", "7"))
        node.kernel.remove(group)
    node.kernel.make("/again", tasks=1)
    node.kernel.set_by_others(setting("/again/cpu.weight"), "55")

    done = restore(node.journal, node.kernel)

    assert done.gone == (setting("/again/cpu.weight"), setting("/gone/cpu.weight"))
    assert done.restored == ()
    assert node.read("/again/cpu.weight") == "55"
    assert node.journal.originals == {}


class Goes(ModelKernel):
    """A kernel that loses the group ``/a`` before or after one of the looks at its identity."""

    def __init__(self, look: int, *, before: bool, while_open: bool) -> None:
        super().__init__(2, cpus=CPUS)
        self._looks = -1  # the first one is the test's own
        self._look, self._before, self._while_open = look, before, while_open

    def identity(self, group: str) -> int | None:
        self._looks += 1
        found = super().identity(group)
        if self._looks == self._look:
            self.remove(group, while_open=self._while_open)
            return None if self._before else found
        return found


@pytest.mark.parametrize("while_open", [False, True])
@pytest.mark.parametrize("look", [1, 2, 3], ids=["reading", "recording", "writing"])
@pytest.mark.parametrize("before", [True, False])
def test_a_group_that_goes_around_a_look_is_gone(look: int, before: bool, while_open: bool) -> None:
    kernel, journal = Goes(look, before=before, while_open=while_open), Journal.in_memory()
    kernel.make("/a", tasks=1)
    record(journal, kernel, ("/a/cpu.weight", "7"))
    kernel.write(setting("/a/cpu.weight"), "7")

    done = restore(journal, kernel)

    assert done.gone == (setting("/a/cpu.weight"),)
    assert not done.failed
    assert journal.originals == {}


def test_a_group_that_goes_after_a_failure_has_not_failed() -> None:
    kernel, journal = Goes(4, before=True, while_open=False), Journal.in_memory()
    kernel.make("/a", cpus="0-3", tasks=1)
    record(journal, kernel, ("/a/cpuset.cpus", "3-5"))
    kernel.write(setting("/a/cpuset.cpus"), "3-5")
    kernel.fail(setting("/a/cpuset.cpus"), errno.EIO)

    done = restore(journal, kernel)

    assert done.gone == (setting("/a/cpuset.cpus"),)
    assert not done.failed


@pytest.mark.parametrize("on", ["read", "write"])
def test_one_failure_keeps_nothing_else_from_going_back(on: Literal["read", "write"]) -> None:
    node = Node(2)
    for group in ("/a", "/b", "/c"):
        node.kernel.make(group, tasks=1)
        node.change((f"{group}/cpu.weight", "7"))
    node.kernel.fail(setting("/b/cpu.weight"), errno.EIO, on=on)

    done = restore(node.journal, node.kernel)

    assert done.restored == (setting("/a/cpu.weight"), setting("/c/cpu.weight"))
    assert {failed: error.errno for failed, error in done.failed.items()} == {
        setting("/b/cpu.weight"): errno.EIO
    }
    assert isinstance(done.failed[setting("/b/cpu.weight")], CgroupError)
    assert set(node.journal.originals) == {setting("/b/cpu.weight")}

    assert restore(node.journal, node.kernel).restored == (setting("/b/cpu.weight"),)
    assert node.read("/b/cpu.weight") == "100"


def test_a_missing_file_of_a_group_that_is_there_is_a_failure() -> None:
    node = Node(2)
    node.kernel.make("/a", tasks=1)
    identity = node.kernel.identity("/a")
    assert identity is not None
    node.journal = Journal.in_memory([Original(setting("/a/cpu.nothing"), identity, "1", ("2",))])

    assert set(restore(node.journal, node.kernel).failed) == {setting("/a/cpu.nothing")}


def test_a_first_step_that_fails_does_not_count_if_the_last_succeeds() -> None:
    node = Node(2)
    node.kernel.make("/a", cpus="0-3", tasks=1)
    node.change(("/a/cpuset.cpus", "3-5"))
    node.kernel.fail(setting("/a/cpuset.cpus"), errno.EINTR)

    assert restore(node.journal, node.kernel).restored == (setting("/a/cpuset.cpus"),)
    assert node.read("/a/cpuset.cpus") == "0-3"


def test_an_empty_cpuset_is_not_taken_for_restored_if_it_could_not_be_widened() -> None:
    node = Node(2)
    node.kernel.make("/a", tasks=1)
    node.change(("/a/cpuset.cpus", "1"))
    node.kernel.fail(setting("/a/cpuset.cpus"), errno.EIO)
    assert set(restore(node.journal, node.kernel).failed) == {setting("/a/cpuset.cpus")}

    node.kernel.fail(setting("//cpuset.cpus.effective"), errno.EIO, on="read")
    assert set(restore(node.journal, node.kernel).failed) == {setting("/a/cpuset.cpus")}

    assert restore(node.journal, node.kernel).restored == (setting("/a/cpuset.cpus"),)


@pytest.mark.parametrize("others", [None, "55"])
def test_a_full_disk_is_told_after_all_is_put_back(tmp_path: Path, others: str | None) -> None:
    kernel = ModelKernel(2)
    kernel.make("/a", tasks=1)
    (tmp_path / "boot_id").write_text("boot")
    folder = tmp_path / "state"
    folder.mkdir()
    journal = Journal.open(folder / "journal.json", tmp_path / "boot_id")
    record(journal, kernel, ("/a/cpu.weight", "7"))
    kernel.write(setting("/a/cpu.weight"), "7")
    (folder / "journal.json").unlink()
    folder.rmdir()
    if others is not None:
        kernel.set_by_others(setting("/a/cpu.weight"), others)

    with pytest.raises(JournalError, match="cannot be written"):
        restore(journal, kernel)
    assert kernel.read(setting("/a/cpu.weight")) == (others or "100")


def test_a_quota_above_that_of_the_parent_is_dropped() -> None:
    """Others gave the container a quota while that of its pod was removed: v1 refuses both."""
    node = Node(1)
    node.kernel.make("/pod")
    node.kernel.make("/pod/c", tasks=1)
    for group, quota in (("/pod", "20000"), ("/pod/c", "700000")):
        node.kernel.set_by_others(setting(f"{group}/cpu.cfs_quota_us"), quota)
        node.change((f"{group}/cpu.cfs_quota_us", "-1"))
    done = restore(node.journal, node.kernel)
    assert (done.failed, dict(node.journal.originals)) == ({}, {})
    assert node.read("/pod/cpu.cfs_quota_us") == "20000"
    assert node.read("/pod/c/cpu.cfs_quota_us") == "-1"


@pytest.mark.system
def test_script_of_the_manual_widens_empty_cpusets_and_kills_no_program(tmp_path: Path) -> None:
    """An empty text cannot be written to a cpuset by ``echo``: the kernel refuses it."""
    cgroups, state = tmp_path / "cgroup", tmp_path / "state"
    (cgroups / "pod").mkdir(parents=True)
    state.mkdir()
    texts = {
        "cgroup.controllers": "cpuset cpu memory",
        "cpuset.cpus.effective": "0-7",
        "pod/cpuset.cpus": "2-3",
        "pod/memory.max": str(3072 * MIB),
        "pod/memory.current": str(2048 * MIB),
    }
    for name, text in texts.items():
        (cgroups / name).write_text(f"{text}\n")
    originals = [
        {"controller": "cpuset", "group": "/pod", "file": "cpuset.cpus", "text": ""},
        {"controller": "memory", "group": "/pod", "file": "memory.max", "text": str(1024 * MIB)},
    ]
    (state / "journal.json").write_text(json.dumps({"originals": originals}))

    restore_by_hand(state, cgroups)
    assert (cgroups / "pod" / "cpuset.cpus").read_text() == "0-7\n"
    assert (cgroups / "pod" / "memory.max").read_text() == f"{3072 * MIB}\n"

    (cgroups / "pod" / "memory.current").write_text(str(16 * MIB))
    restore_by_hand(state, cgroups)
    assert (cgroups / "pod" / "memory.max").read_text() == f"{1024 * MIB}\n"
