"""The model of the kernel answers as the kernel does, errno by errno.

Each scenario runs on the model, and on the kernel of this machine where it has that version of
cgroups and the tests are root. What cannot be tried here, such as taking a CPU off, is tested on
the model alone.
"""

import errno
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Literal, Protocol

import pytest

from model_kernel import MIB, Memory, ModelKernel, Stopped
from waiting import eventually
from walras_agent.tree import CgroupError, CgroupFile, Cgroups, CgroupTree, Controller, TreeError

Version = Literal[1, 2]

# Each line is a group's file, what is written if anything, and the kernel's answer: an errno, or
# what the file says afterwards. The group "p" has the children "p/idle", "p/busy" with a task, and
# "p/big" with a task that has 40 MiB.
SCENARIOS: dict[str, tuple[Version, str]] = {
    "v1: a cpuset keeps within its parent and around its children": (
        1,
        """
        p/busy/cpuset.cpus <- 0 : 0
        p/idle/cpuset.cpus <- 0 : 0
        p/big/cpuset.cpus <- 0 : 0
        p/cpuset.cpus <- 1 : EBUSY
        p/cpuset.cpus <- 0 : 0
        p/busy/cpuset.cpus <- 0-1 : EACCES
        p/busy/cpuset.cpus <- 1 : EACCES
        p/cpuset.cpus <- 0-1 : 0-1
        p/busy/cpuset.cpus <- 1 : 1
        p/busy/cpuset.effective_cpus is : 1
        """,
    ),
    "v1: a cpuset is emptied by an empty value, and only without tasks": (
        1,
        """
        p/idle/cpuset.cpus is : 0-1
        p/idle/cpuset.cpus <- nothing : empty
        p/busy/cpuset.cpus <- nothing : ENOSPC
        p/busy/cpuset.mems <- nothing : ENOSPC
        p/cpuset.cpus <- nothing : EBUSY
        """,
    ),
    "v1: a cpuset is a list of CPUs that are there": (
        1,
        """
        p/idle/cpuset.cpus <- 9000 : ERANGE
        p/idle/cpuset.cpus <- 0,9000 : ERANGE
        p/idle/cpuset.cpus <- x : EINVAL
        p/idle/cpuset.cpus <- 1-0 : EINVAL
        p/idle/cpuset.cpus <- -1 : EINVAL
        p/idle/cpuset.cpus <- 0,,1 : 0-1
        p/idle/cpuset.mems <- 9999 : ERANGE
        p/idle/cpuset.mems <- 700 : EINVAL
        """,
    ),
    "v1: files that are not there, or not for writing": (
        1,
        """
        p/idle/cpuset.effective_cpus <- 0 : EINVAL
        p/idle/cpuset.nothing <- 0 : ENOENT
        p/missing/cpuset.cpus <- 0 : ENOENT
        p/idle/memory.usage_in_bytes <- 0 : EINVAL
        """,
    ),
    "v1: shares are kept within their range": (
        1,
        """
        p/cpu.shares <- 0 : 2
        p/cpu.shares <- 300000 : 262144
        p/cpu.shares <- -1 : EINVAL
        p/cpu.shares <- x : EINVAL
        p/cpu.shares <- 512 : 512
        """,
    ),
    "v1: no group has a greater part of the time than its parent": (
        1,
        """
        p/cpu.cfs_quota_us <- 50000 : 50000
        p/busy/cpu.cfs_quota_us <- 50001 : EINVAL
        p/busy/cpu.cfs_quota_us <- 50000 : 50000
        p/cpu.cfs_quota_us <- 40000 : EINVAL
        p/cpu.cfs_period_us <- 200000 : EINVAL
        p/cpu.cfs_quota_us <- -1 : -1
        p/cpu.cfs_quota_us <- 40000 : EINVAL
        p/busy/cpu.cfs_quota_us <- -5 : -1
        p/cpu.cfs_quota_us <- 40000 : 40000
        p/busy/cpu.cfs_period_us <- 1000000 : 1000000
        p/busy/cpu.cfs_quota_us <- 400000 : 400000
        p/busy/cpu.cfs_period_us <- 100000 : EINVAL
        """,
    ),
    "v1: quota, period and burst have their ranges": (
        1,
        """
        p/cpu.cfs_quota_us <- 999 : EINVAL
        p/cpu.cfs_quota_us <- 0 : EINVAL
        p/cpu.cfs_quota_us <- x : EINVAL
        p/cpu.cfs_period_us <- 999 : EINVAL
        p/cpu.cfs_period_us <- 1000001 : EINVAL
        p/cpu.cfs_quota_us <- 99999999999999999 : EINVAL
        p/cpu.cfs_quota_us <- 20000 : 20000
        p/cpu.cfs_burst_us <- 20001 : EINVAL
        p/cpu.cfs_burst_us <- 20000 : 20000
        p/cpu.cfs_quota_us <- 19999 : EINVAL
        p/cpu.cfs_quota_us <- -1 : -1
        p/cpu.cfs_burst_us <- 5 : 5
        """,
    ),
    "v1: a limit below what is in use is refused": (
        1,
        """
        p/big/memory.limit_in_bytes <- 20M : EBUSY
        p/memory.limit_in_bytes <- 20M : EBUSY
        p/memory.limit_in_bytes <- 100M : 104857600
        p/memory.limit_in_bytes <- -1 : 9223372036854771712
        """,
    ),
    "v1: the limit with swap is at least the one without": (
        1,
        """
        p/memory.limit_in_bytes <- 64M : 67108864
        p/memory.memsw.limit_in_bytes <- 63M : EINVAL
        p/memory.memsw.limit_in_bytes <- 128M : 134217728
        p/memory.limit_in_bytes <- 129M : EINVAL
        p/memory.limit_in_bytes <- -1 : EINVAL
        p/memory.memsw.limit_in_bytes <- -1 : 9223372036854771712
        p/memory.limit_in_bytes <- -1 : 9223372036854771712
        """,
    ),
    "v1: a limit is a number of bytes, in whole pages": (
        1,
        """
        p/idle/memory.limit_in_bytes <- 10000001 : 9998336
        p/idle/memory.limit_in_bytes <- 10000000x : EINVAL
        p/idle/memory.limit_in_bytes <- max : EINVAL
        p/idle/memory.limit_in_bytes <- -2 : EINVAL
        p/idle/memory.soft_limit_in_bytes <- 1M : 1048576
        p/idle/memory.failcnt <- 5 : 0
        p/idle/memory.limit_in_bytes <- nothing : 0
        """,
    ),
    "v2: a cpuset takes what its parent has, or all of that": (
        2,
        """
        p/busy/cpuset.cpus.effective is : 0-1
        p/busy/cpuset.cpus <- 0 : 0
        p/busy/cpuset.cpus.effective is : 0
        p/cpuset.cpus <- 1 : 1
        p/busy/cpuset.cpus is : 0
        p/busy/cpuset.cpus.effective is : 1
        p/busy/cpuset.cpus <- 0-1 : 0-1
        p/busy/cpuset.cpus.effective is : 1
        """,
    ),
    "v2: a cpuset is emptied by an empty value, and only without tasks": (
        2,
        """
        p/idle/cpuset.cpus <- 0 : 0
        p/idle/cpuset.cpus is : 0
        p/idle/cpuset.cpus <- nothing : empty
        p/busy/cpuset.cpus <- nothing : empty
        p/busy/cpuset.cpus <- 0 : 0
        p/busy/cpuset.cpus <- nothing : ENOSPC
        p/cpuset.cpus <- 0-1 : 0-1
        p/cpuset.cpus <- nothing : ENOSPC
        p/busy/cpuset.mems <- 0 : 0
        p/busy/cpuset.mems <- nothing : ENOSPC
        """,
    ),
    "v2: a cpuset is a list of CPUs that may be there": (
        2,
        """
        p/idle/cpuset.cpus <- 9000 : ERANGE
        p/idle/cpuset.cpus <- x : EINVAL
        p/idle/cpuset.mems <- 700 : EINVAL
        p/idle/cpuset.mems <- 5000 : ERANGE
        """,
    ),
    "v2: files that are not there, or not for writing": (
        2,
        """
        p/idle/cpuset.cpus.effective <- 0 : EINVAL
        p/idle/cpuset.nothing <- 0 : ENOENT
        p/missing/cpuset.cpus <- 0 : ENOENT
        p/idle/memory.current <- 1 : EINVAL
        p/idle/memory.events <- 0 : EINVAL
        """,
    ),
    "v2: weights have their range": (
        2,
        """
        p/cpu.weight <- 0 : ERANGE
        p/cpu.weight <- 10001 : ERANGE
        p/cpu.weight <- 10000 : 10000
        p/cpu.weight <- x : EINVAL
        p/cpu.weight <- -1 : EINVAL
        """,
    ),
    "v2: a quota is at least the burst": (
        2,
        """
        p/cpu.max <- 50000 : 50000 100000
        p/cpu.max.burst <- 50001 : EINVAL
        p/cpu.max.burst <- 50000 : 50000
        p/cpu.max <- 49999 : EINVAL
        p/cpu.max <- max : max 100000
        p/cpu.max <- max 200000 : max 200000
        p/cpu.max <- 20000 10000 : EINVAL
        p/cpu.max.burst <- 0 : 0
        p/cpu.max <- 20000 10000 : 20000 10000
        """,
    ),
    "v2: a quota has its range, and may be greater than the parent's": (
        2,
        """
        p/busy/cpu.max <- 20000 10000 : 20000 10000
        p/cpu.max <- 1000 : 1000 100000
        p/cpu.max <- 999 10000 : EINVAL
        p/cpu.max <- 20000 999 : EINVAL
        p/cpu.max <- 10000 1000001 : EINVAL
        p/cpu.max <- -1 : EINVAL
        p/cpu.max <- x : EINVAL
        p/cpu.max <- nothing : EINVAL
        """,
    ),
    "v2: a limit is a number of bytes, in whole pages": (
        2,
        """
        p/idle/memory.max <- 10000001 : 9998336
        p/idle/memory.max <- max : max
        p/idle/memory.max <- -1 : EINVAL
        p/idle/memory.max <- x : EINVAL
        p/idle/memory.high <- 1G : 1073741824
        p/idle/memory.low <- 5000 : 4096
        """,
    ),
    "v2: what cannot be reclaimed is not": (
        2,
        """
        p/big/memory.reclaim <- 100M : EAGAIN
        p/big/memory.reclaim <- x : EINVAL
        p/big/memory.high <- 20M : 20971520
        """,
    ),
}


class Machine(Protocol):
    """A real or modelled machine on which the scenarios create groups."""

    top: str

    @property
    def cgroups(self) -> Cgroups:
        """Return the cgroups of the machine, real or modelled."""

    def make(self, group: str, *, tasks: int = 0, mebibytes: int = 0) -> None:
        """Make a group with two CPUs, with tasks that hold memory."""

    def remove(self, group: str) -> None:
        """Remove a group without tasks."""


class Model:
    top = ""

    def __init__(self, version: Version) -> None:
        self.cgroups = ModelKernel(version, cpus=2)

    def make(self, group: str, *, tasks: int = 0, mebibytes: int = 0) -> None:
        self.cgroups.make(group, tasks=tasks, memory=Memory(anonymous=mebibytes * MIB))

    def remove(self, group: str) -> None:
        self.cgroups.remove(group)


HOLD = """
import sys
sys.stdin.readline()
held = b"x" * int(sys.argv[1])
print("holds", flush=True)
sys.stdin.read()
"""


class Real:
    """The kernel of this machine, below a group of its own."""

    def __init__(self, tree: CgroupTree, stack: ExitStack) -> None:
        self.cgroups, self._stack = tree, stack
        self.top = f"/walras-model-{os.getpid()}"
        self._mounts = sorted({tree.mounts[name] for name in ("cpuset", "cpu", "memory")})
        self.make(self.top)

    def make(self, group: str, *, tasks: int = 0, mebibytes: int = 0) -> None:
        for mount in self._mounts:
            folder = Path(mount + group)
            if self.cgroups.version == 2:
                switch = folder.parent / "cgroup.subtree_control"
                switch.write_text("+cpuset +cpu +memory")
            folder.mkdir()
            self._stack.callback(self._remove, folder)
        if self.cgroups.version == 1:
            for file, value in (("cpuset.cpus", "0-1"), ("cpuset.mems", "0")):
                self.cgroups.write(CgroupFile("cpuset", group, file), value)
        for _ in range(tasks):
            self._start(group, mebibytes)

    def remove(self, group: str) -> None:
        for mount in self._mounts:
            self._remove(Path(mount + group))

    def _start(self, group: str, mebibytes: int) -> None:
        task = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(mebibytes * MIB)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._stack.enter_context(task)
        self._stack.callback(task.kill)
        for mount in self._mounts:
            Path(f"{mount}{group}/cgroup.procs").write_text(str(task.pid))
        assert task.stdin is not None
        assert task.stdout is not None
        task.stdin.write(b"\n")
        task.stdin.flush()
        assert task.stdout.readline() == b"holds\n"

    @staticmethod
    def _remove(folder: Path) -> None:
        def removed() -> bool:
            try:
                folder.rmdir()
            except FileNotFoundError:
                return True
            except OSError as error:
                if error.errno != errno.EBUSY:
                    raise
                return False  # its tasks are on their way out
            return True

        assert eventually(removed), folder


def real_machine(stack: ExitStack) -> Real:
    if os.geteuid() != 0:
        pytest.skip("the kernel's answers are asked for by root only")
    try:
        tree = CgroupTree.at()
    except TreeError as error:
        pytest.skip(f"this machine's cgroups are not for the agent: {error}")
    if (os.cpu_count() or 0) < 2:
        pytest.skip("the scenarios need two CPUs")
    return Real(tree, stack)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


LINE = re.compile(r"(?P<group>\S+)/(?P<file>\S+) (is|<- (?P<value>.+)) : .+")


def try_line(machine: Machine, line: str) -> str:
    """Make the write of a line, if it has one, and return the line with the answer."""
    match = LINE.fullmatch(line)
    assert match, line
    controller: Controller = "cpuset"
    for known in ("cpu", "memory"):
        if match["file"].startswith(f"{known}."):
            controller = known
    setting = CgroupFile(controller, f"{machine.top}/{match['group']}", match["file"])
    try:
        if match["value"] is not None:
            machine.cgroups.write(setting, match["value"].removeprefix("nothing"))
        answer = machine.cgroups.read(setting) or "empty"
    except CgroupError as error:
        answer = errno.errorcode[error.errno]
    return line.rpartition(" : ")[0] + f" : {answer}"


def on_kernel(*values: object, version: Version) -> object:
    return pytest.param("kernel", *values, marks=pytest.mark.cgroup(version))


WHERE_AND_VERSION = pytest.mark.parametrize(
    ("where", "version"),
    [("model", 1), ("model", 2), on_kernel(1, version=1), on_kernel(2, version=2)],
)


@pytest.mark.system
@pytest.mark.parametrize(
    ("where", "scenario"),
    [
        case
        for name, (version, _) in SCENARIOS.items()
        for case in (("model", name), on_kernel(name, version=version))
    ],
)
def test_answers_are_the_kernels(scenario: str, where: str, stack: ExitStack) -> None:
    version, text = SCENARIOS[scenario]
    machine = Model(version) if where == "model" else real_machine(stack)
    machine.make(f"{machine.top}/p")
    machine.make(f"{machine.top}/p/idle")
    machine.make(f"{machine.top}/p/busy", tasks=1)
    machine.make(f"{machine.top}/p/big", tasks=1, mebibytes=40)
    lines = [line.strip() for line in text.strip().splitlines()]

    assert [try_line(machine, line) for line in lines] == lines


@WHERE_AND_VERSION
def test_a_group_made_again_is_another(version: Version, where: str, stack: ExitStack) -> None:
    machine = Model(version) if where == "model" else real_machine(stack)
    group = f"{machine.top}/a"
    machine.make(group)
    first = machine.cgroups.identity(group)
    machine.remove(group)

    assert machine.cgroups.identity(group) is None
    assert machine.cgroups.children(group) == ()
    with pytest.raises(CgroupError, match="No such file"):
        machine.cgroups.read(CgroupFile("cpuset", group, "cpuset.cpus"))

    machine.make(group)
    assert machine.cgroups.identity(group) not in {None, first}
    assert group in machine.cgroups.children(machine.top or "/")


def setting(path: str) -> CgroupFile:
    group, _, file = path.rpartition("/")
    controller = file.split(".")[0]
    assert controller in {"cpuset", "cpu", "memory"}
    return CgroupFile(controller, group, file)  # type: ignore[arg-type]


def refusal(kernel: ModelKernel, path: str, value: str) -> int | None:
    try:
        kernel.write(setting(path), value)
    except CgroupError as error:
        return error.errno
    return None


def numbers(kernel: ModelKernel, path: str) -> dict[str, int]:
    return {
        name: int(value)
        for name, value in (line.split() for line in kernel.read(setting(path)).splitlines())
    }


def test_v1_takes_a_cpu_that_goes_off_out_of_all_groups_for_good() -> None:
    kernel = ModelKernel(1, cpus=4)
    kernel.make("/a", cpus="2-3", tasks=1)
    kernel.make("/b", cpus="3", tasks=2)

    kernel.offline([3])

    assert kernel.read(setting("/a/cpuset.cpus")) == "2"
    assert refusal(kernel, "/a/cpuset.cpus", "2-3") == errno.EINVAL
    assert (kernel.tasks_of("/"), kernel.tasks_of("/b")) == (2, 0)
    kernel.online([3])
    assert kernel.read(setting("/a/cpuset.cpus")) == "2"
    assert refusal(kernel, "/a/cpuset.cpus", "2-3") is None


def test_v2_keeps_a_cpu_that_goes_off_for_when_it_is_back() -> None:
    kernel = ModelKernel(2, cpus=4)
    kernel.make("/a", cpus="3", tasks=1)

    kernel.offline([3])

    assert kernel.read(setting("/a/cpuset.cpus")) == "3"
    assert kernel.read(setting("/a/cpuset.cpus.effective")) == "0-2"
    kernel.online([3])
    assert kernel.read(setting("/a/cpuset.cpus.effective")) == "3"


def test_v2_of_old_kernels_keeps_parents_around_children() -> None:
    kernel = ModelKernel(2, cpus=4, nested=True)
    kernel.make("/a", cpus="0-3")
    kernel.make("/a/b", cpus="2")

    assert refusal(kernel, "/a/cpuset.cpus", "0-1") == errno.EBUSY
    assert refusal(kernel, "/a/b/cpuset.cpus", "9") == errno.ERANGE


def test_v2_limit_reclaims_what_it_can_and_kills_for_the_rest() -> None:
    kernel = ModelKernel(2)
    kernel.make("/a/b", tasks=1, memory=Memory(anonymous=60 * MIB, reclaimable=40 * MIB))

    kernel.write(setting("/a/memory.max"), str(70 * MIB))
    assert kernel.read(setting("/a/memory.current")) == str(70 * MIB)
    assert kernel.oom_kills == []

    kernel.write(setting("/a/memory.max"), str(50 * MIB))
    assert kernel.oom_kills == ["/a/b"]
    assert numbers(kernel, "/a/memory.events")["oom_kill"] == 1
    assert kernel.tasks_of("/a/b") == 0


def test_v1_limit_reclaims_what_it_can_and_is_refused_for_the_rest() -> None:
    kernel = ModelKernel(1)
    kernel.make("/a", tasks=1, memory=Memory(anonymous=60 * MIB, reclaimable=40 * MIB))

    assert refusal(kernel, "/a/memory.limit_in_bytes", "70M") is None
    assert refusal(kernel, "/a/memory.limit_in_bytes", "50M") == errno.EBUSY
    assert kernel.read(setting("/a/memory.limit_in_bytes")) == str(70 * MIB)
    assert kernel.read(setting("/a/memory.usage_in_bytes")) == str(60 * MIB)
    assert kernel.oom_kills == []


def test_reclaim_tells_when_there_was_not_enough() -> None:
    kernel = ModelKernel(2)
    kernel.make("/a", tasks=1, memory=Memory(anonymous=60 * MIB, reclaimable=40 * MIB))

    assert refusal(kernel, "/a/memory.reclaim", "30M") is None
    assert refusal(kernel, "/a/memory.reclaim", "30M") == errno.EAGAIN
    assert numbers(kernel, "/a/memory.stat")["file"] == 0


def test_a_task_grows_between_the_look_and_the_write() -> None:
    kernel = ModelKernel(2)
    kernel.make("/a", tasks=1, memory=Memory(anonymous=60 * MIB, growth=8 * MIB))

    assert int(kernel.read(setting("/a/memory.current"))) <= 64 * MIB
    kernel.write(setting("/a/memory.max"), str(64 * MIB))

    assert kernel.oom_kills == ["/a"]


@pytest.mark.parametrize(("version", "limit"), [(1, "limit_in_bytes"), (2, "max")])
def test_what_tasks_need_of_their_files_is_read_back(version: Version, limit: str) -> None:
    kernel = ModelKernel(version)
    memory = Memory(anonymous=60 * MIB, reclaimable=40 * MIB, hot=30 * MIB)
    kernel.make("/a", tasks=1, memory=memory)
    total = "total_" if version == 1 else ""

    kernel.elapse()
    assert numbers(kernel, "/a/memory.stat")[f"{total}workingset_refault_file"] == 0

    kernel.write(setting(f"/a/memory.{limit}"), str(80 * MIB))
    kernel.elapse()
    refaults = numbers(kernel, "/a/memory.stat")[f"{total}workingset_refault_file"]
    assert refaults == 10 * MIB // 4096
    assert memory.total == 80 * MIB
    if version == 1:
        assert kernel.read(setting("/a/memory.failcnt")) == "1"
    else:
        assert numbers(kernel, "/a/memory.events")["max"] == 1
        assert "some avg10=25.60 " in kernel.read(setting("/a/memory.pressure"))
        kernel.memory_of("/a").hot = 0
        kernel.elapse()
        pressure = kernel.read(setting("/a/memory.pressure")).splitlines()[0]
        assert pressure == "some avg10=0.00 avg60=0.00 avg300=0.00 total=256000"


def test_memory_high_holds_growth_of_files_back_and_never_kills() -> None:
    kernel = ModelKernel(2)
    kernel.make("/a", tasks=1, memory=Memory(60 * MIB, 40 * MIB, growth=10 * MIB))

    kernel.write(setting("/a/memory.high"), str(90 * MIB))
    assert kernel.read(setting("/a/memory.current")) == str(90 * MIB)
    kernel.elapse()
    kernel.elapse()
    kernel.elapse()

    assert kernel.read(setting("/a/memory.current")) == str(100 * MIB)
    assert kernel.oom_kills == []
    assert numbers(kernel, "/a/memory.events")["high"] > 0


def test_growth_into_a_limit_kills() -> None:
    kernel = ModelKernel(2)
    kernel.make("/a", tasks=1, memory=Memory(60 * MIB, growth=10 * MIB))
    kernel.write(setting("/a/memory.max"), str(75 * MIB))
    assert kernel.oom_kills == []

    kernel.elapse()
    assert kernel.oom_kills == ["/a"]


def test_a_group_removed_while_its_file_is_open_has_no_device() -> None:
    kernel = ModelKernel(2)
    kernel.make("/a/b")

    kernel.remove("/a", while_open=True)

    assert refusal(kernel, "/a/cpuset.cpus", "0") == errno.ENODEV
    assert refusal(kernel, "/a/cpuset.cpus", "0") == errno.ENOENT
    assert kernel.identity("/a/b") is None


def test_a_file_fails_as_often_as_it_is_told() -> None:
    kernel = ModelKernel(2)
    kernel.make("/a")
    kernel.fail(setting("/a/cpu.weight"), errno.EIO, times=2)
    kernel.fail(setting("/a/cpu.weight"), errno.EINTR, on="read")

    with pytest.raises(CgroupError, match="cannot be read: Interrupted"):
        kernel.read(setting("/a/cpu.weight"))
    answers = [refusal(kernel, "/a/cpu.weight", "7") for _ in range(3)]

    assert answers == [errno.EIO, errno.EIO, None]
    assert [write.refused for write in kernel.writes] == answers
    assert kernel.read(setting("/a/cpu.weight")) == "7"


def test_the_agent_stops_right_before_a_write_and_does_nothing_more() -> None:
    kernel = ModelKernel(2)
    kernel.make("/a")
    kernel.stop_after(1)

    kernel.write(setting("/a/cpu.weight"), "7")
    for _ in range(2):
        with pytest.raises(Stopped):
            kernel.write(setting("/a/cpu.weight"), "8")
    kernel.set_by_others(setting("/a/cpuset.cpus"), "0")

    assert kernel.read(setting("/a/cpu.weight")) == "7"
    assert [write.value for write in kernel.writes] == ["7"]
    kernel.go_on()
    kernel.write(setting("/a/cpu.weight"), "9")
    assert kernel.read(setting("/a/cpu.weight")) == "9"
