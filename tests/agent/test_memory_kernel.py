"""Grants of memory held by the real kernel, on programs that hold, cache and grow.

Nothing is faked but the pod: one group with another inside, as a pod has of its container. The
module is also run inside an emulated machine with cgroup v2 (test_guest.py).
"""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from waiting import eventually
from walras_agent.memory.limit_steps import (
    LimitHistory,
    LimitProgress,
    Reclaim,
    ReclaimPace,
    SetLimit,
)
from walras_agent.memory.limit_writes import apply_writes, take_step
from walras_agent.memory.stats import MemoryLimits, MemorySample, read_sample
from walras_agent.tree import CgroupError, CgroupFile, CgroupTree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from walras_agent.tree import Cgroups

MIB = 1 << 20
LOOK = 0.2
PACE = ReclaimPace(pause=0.2, patience=2.0, settle=1.0, first_wait=2.0)
LIMIT = MemoryLimits(512 * MIB)

IS_V2 = Path("/sys/fs/cgroup/cgroup.controllers").exists()
FOLDER = Path("/sys/fs/cgroup" if IS_V2 else "/sys/fs/cgroup/memory")
DISK = Path("/var/tmp")  # noqa: S108 - /tmp is often memory itself, which is no cache

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(
        os.geteuid() != 0 or not os.access(FOLDER, os.W_OK),
        reason="needs root and the memory controller, to make groups whose memory is limited",
    ),
]
only_v1 = pytest.mark.cgroup(1)
only_v2 = pytest.mark.cgroup(2)

PROGRAM = """
import mmap, os, sys
with open(sys.argv[1], "w") as procs:
    procs.write("0")
held = []
for line in sys.stdin:
    what, mib = line.split()
    if what == "hold":
        for _ in range(int(mib)):
            held.append(mmap.mmap(-1, 1 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
            held[-1].write(bytes(1 << 20))
    elif what == "free":
        for _ in range(int(mib)):
            held.pop().close()
    else:
        with open(sys.argv[2], "wb") as file:
            for _ in range(int(mib)):
                file.write(bytes(1 << 20))
            file.flush()
            os.fsync(file.fileno())
    print("done", flush=True)
"""


@dataclass
class Program:
    """A program in the container."""

    process: subprocess.Popen[str]

    def begin(self, what: str, mib: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{what} {mib}\n")
        self.process.stdin.flush()

    def end(self) -> bool:
        """Wait until the action that was begun has ended; return whether the program survived."""
        assert self.process.stdout is not None
        return self.process.stdout.readline() == "done\n"

    def do(self, what: str, mib: int) -> None:
        self.begin(what, mib)
        assert self.end()


@dataclass
class AGroup:
    """A pod with one container, and what the agent remembers of its limits."""

    cgroups: Cgroups
    pod: str
    originals: dict[str, MemoryLimits]
    histories: dict[str, LimitHistory] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)

    @property
    def container(self) -> str:
        return f"{self.pod}/main"

    def sample(self) -> MemorySample:
        return read_sample(self.cgroups, self.pod)

    def killed(self) -> int:
        """Count the kills for want of memory, which v2 counts in the pod's group as well."""
        file = "memory.events" if self.cgroups.version == 2 else "memory.oom_control"
        groups = (self.pod, self.container)
        texts = [self.cgroups.read(CgroupFile("memory", each, file)) for each in groups]
        counts = re.findall(r"^oom_kill (\d+)$", "\n".join(texts), re.MULTILINE)
        return sum(map(int, counts))

    def look(self, grant: int | None, cgroups: Cgroups | None = None) -> LimitProgress:
        held = take_step(
            cgroups or self.cgroups,
            self.pod,
            grant,
            self.originals,
            self.histories,
            time.monotonic(),
            pace=PACE,
        )
        self.histories = dict(held.histories)
        self.said.append(held.report.reason)
        time.sleep(LOOK)
        return held.report

    def looks(
        self, grant: int | None, until: Callable[[LimitProgress], object], seconds: float = 90
    ) -> LimitProgress:
        deadline = time.monotonic() + seconds
        while not until(report := self.look(grant)) and time.monotonic() < deadline:
            pass
        assert until(report), report
        return report

    def until_held(self, grant: int | None) -> LimitProgress:
        return self.looks(grant, lambda report: report.state == "Held")

    def restart_agent(self) -> None:
        self.histories = {}


def is_empty(folder: Path) -> bool:
    return not (folder / "cgroup.procs").read_text()


@pytest.fixture
def group() -> Iterator[AGroup]:
    """A pod and its container, each with a limit of 512 MiB."""
    tree = CgroupTree.at()
    pod = f"/walras-test-{os.getpid()}"
    folders = [FOLDER / pod[1:], FOLDER / pod[1:] / "main"]
    if IS_V2:
        (FOLDER / "cgroup.subtree_control").write_text("+memory")
    for folder in folders:
        folder.mkdir()
        if IS_V2 and folder is folders[0]:
            (folder / "cgroup.subtree_control").write_text("+memory")
    made = AGroup(tree, pod, {})
    limit = "memory.max" if IS_V2 else "memory.limit_in_bytes"
    for name in (pod, made.container):
        tree.write(CgroupFile("memory", name, limit), str(LIMIT.hard))
        made.originals[name] = MemoryLimits.read(tree.version, name, tree.read)
    yield made
    for folder in reversed(folders):
        if folder.exists():
            assert eventually(partial(is_empty, folder))
            folder.rmdir()


@pytest.fixture
def program(group: AGroup) -> Iterator[Program]:
    file = DISK / f"walras-test-{os.getpid()}"
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, f"{FOLDER}{group.container}/cgroup.procs", str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Program(process)
        process.kill()
    file.unlink(missing_ok=True)


def hard_limits(group: AGroup) -> set[int]:
    cgroups = group.cgroups
    return {read_sample(cgroups, name).limits.hard for name in (group.pod, group.container)}


def test_memory_in_use_is_never_taken(group: AGroup, program: Program) -> None:
    program.do("hold", 200)
    report = group.looks(100 * MIB, lambda report: "waits until it frees" in report.reason)
    for _ in range(10):
        report = group.look(100 * MIB)

    assert report.state == "Pending"
    assert 200 * MIB < report.limit < 300 * MIB
    program.do("free", 180)
    assert group.until_held(100 * MIB).limit == 100 * MIB
    assert hard_limits(group) == {LIMIT.hard}
    assert group.killed() == 0


def test_cache_is_taken_until_the_grant_is_held(group: AGroup, program: Program) -> None:
    program.do("hold", 20)
    program.do("cache", 250)
    assert group.sample().usage > 200 * MIB

    assert group.until_held(100 * MIB).limit == 100 * MIB
    assert group.sample().usage <= 101 * MIB
    program.do("cache", 200)  # more than fits, which costs cache and nothing else
    group.until_held(100 * MIB)
    assert group.killed() == 0


def test_a_program_that_grows_right_after_its_limit_was_lowered_lives(
    group: AGroup, program: Program
) -> None:
    program.do("hold", 20)
    group.until_held(100 * MIB)

    program.begin("hold", 200)
    group.looks(100 * MIB, lambda report: report.limit > 220 * MIB)
    assert program.end()
    assert any("tries again in" in reason for reason in group.said)
    assert group.killed() == 0

    program.do("free", 200)
    group.until_held(100 * MIB)


def test_raised_limits_are_put_back_once_the_program_fits(group: AGroup, program: Program) -> None:
    assert group.until_held(700 * MIB) == LimitProgress("Held", "", 700 * MIB)
    assert hard_limits(group) == {700 * MIB}
    program.do("hold", 550)

    group.looks(None, lambda report: "waits until it frees" in report.reason)
    program.do("free", 400)
    group.until_held(None)
    assert {name: read_sample(group.cgroups, name).limits for name in group.originals} == (
        group.originals
    )
    assert group.killed() == 0

    # And there the user's own limit holds again.
    program.begin("hold", 600)
    assert not program.end()
    assert group.killed() > 0


@dataclass
class Dying:
    """The kernel's cgroups, under an agent that dies after some writes."""

    kernel: Cgroups
    left: int

    @property
    def version(self) -> Literal[1, 2]:
        return self.kernel.version

    def read(self, setting: CgroupFile) -> str:
        return self.kernel.read(setting)

    def identity(self, group: str) -> int | None:
        return self.kernel.identity(group)

    def children(self, group: str) -> tuple[str, ...]:
        return self.kernel.children(group)

    def write(self, setting: CgroupFile, value: str) -> None:
        if self.left == 0:
            raise KeyboardInterrupt
        self.left -= 1
        self.kernel.write(setting, value)


def dies(group: AGroup, cgroups: Dying) -> bool:
    """Whether the agent comes to its death before the grant is held."""
    try:
        for _ in range(200):
            if group.look(100 * MIB, cgroups).state == "Held":
                return False
    except KeyboardInterrupt:
        return True
    pytest.fail(group.said[-1])


def test_an_agent_that_dies_after_any_write_kills_nobody(group: AGroup, program: Program) -> None:
    program.do("hold", 20)
    for writes in range(10):
        program.do("cache", 150)
        group.look(100 * MIB)
        if not dies(group, Dying(group.cgroups, writes)):
            break
        program.begin("hold", 250)
        time.sleep(LOOK)
        group.restart_agent()
        group.until_held(None)
        assert program.end()
        program.do("free", 250)
        assert hard_limits(group) == {LIMIT.hard}
        assert group.sample().limits.kills
        assert group.killed() == 0
    assert writes > 2


def test_memory_that_cannot_be_reclaimed_is_not_held_to_less(
    group: AGroup, program: Program
) -> None:
    program.do("hold", 100)
    before = group.sample().limits

    refused = apply_writes(
        group.cgroups, [Reclaim(group.pod, 20 * MIB), SetLimit(group.pod, "soft", 20 * MIB)]
    )

    after = group.sample().limits
    assert refused == []
    assert after.soft >= 100 * MIB
    assert replace(after, soft=before.soft) == before
    assert group.killed() == 0


def test_a_refused_write_holds_up_its_own_group_only(group: AGroup) -> None:
    gone = f"{group.pod}/gone"
    refused = apply_writes(
        group.cgroups,
        [
            SetLimit(gone, "soft", 100 * MIB),
            SetLimit(gone, "hard", 100 * MIB),
            SetLimit(group.pod, "soft", 100 * MIB),
        ],
    )

    assert [(error.setting.group, error.kind) for error in refused] == [(gone, "gone")]
    assert group.sample().limits.soft == 100 * MIB


def test_a_container_that_is_gone_is_left_out_and_a_pod_that_is_gone_is_an_error(
    group: AGroup,
) -> None:
    (FOLDER / group.container[1:]).rmdir()
    group.until_held(700 * MIB)
    assert group.sample().limits.hard == 700 * MIB

    (FOLDER / group.pod[1:]).rmdir()
    with pytest.raises(CgroupError) as raised:
        group.look(700 * MIB)
    assert raised.value.kind == "gone"


@only_v1
def test_swap_and_memory_are_raised_together_and_put_back(group: AGroup) -> None:
    files = [FOLDER / group.pod[1:] / f"memory.{name}limit_in_bytes" for name in ("memsw.", "")]
    if not files[0].exists():
        pytest.skip("the kernel does not account for swap")
    files[0].write_text(str(LIMIT.hard))
    group.originals[group.pod] = MemoryLimits.read(1, group.pod, group.cgroups.read)
    assert group.originals[group.pod].swap == LIMIT.hard

    group.until_held(700 * MIB)
    assert [int(file.read_text()) for file in files] == [700 * MIB] * 2
    group.until_held(None)
    assert [int(file.read_text()) for file in files] == [LIMIT.hard] * 2


@dataclass
class Older(Dying):
    """The kernel's cgroups without ``memory.reclaim``, as before Linux 5.19."""

    def write(self, setting: CgroupFile, value: str) -> None:
        if setting.file == "memory.reclaim":
            raise CgroupError(setting, errno.ENOENT, value)
        self.kernel.write(setting, value)


@only_v2
def test_cache_is_taken_by_the_soft_limit_where_there_is_no_other_way(
    group: AGroup, program: Program
) -> None:
    program.do("cache", 150)
    group.cgroups = Older(group.cgroups, 0)
    group.until_held(64 * MIB)
    assert group.sample().usage <= 65 * MIB


@only_v2
def test_kernel_that_slows_nobody_down_safely_is_not_asked_to(
    group: AGroup, program: Program
) -> None:
    program.do("cache", 100)
    before = group.sample().limits
    for now in range(20):
        held = take_step(
            group.cgroups,
            group.pod,
            64 * MIB,
            group.originals,
            group.histories,
            now,
            release="5.8.0",
        )
        group.histories = dict(held.histories)
    assert held.report.state == "Pending"
    assert "before Linux 5.9" in held.report.reason
    assert group.sample().limits == before
