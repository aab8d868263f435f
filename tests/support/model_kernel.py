"""A model of the kernel's cgroup files, for tests of the agent that fail and stop it anywhere.

It answers as Linux 6 does (``kernel/cgroup/cpuset.c``, ``kernel/cgroup/cpuset-v1.c``,
``kernel/sched/core.c``, ``mm/memcontrol.c``, ``mm/memcontrol-v1.c``), errno by errno:
test_model_kernel.py compares it with the kernel that the tests run on. There is no swap, there are
no CPU or memory partitions, and time passes only in `ModelKernel.elapse`.
"""

from __future__ import annotations

import errno
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from walras_agent.cpuset import CpuSet
from walras_agent.tree import CgroupError, Setting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

PAGE = 4096
MIB = 1 << 20
UNLIMITED = (1 << 63) // PAGE * PAGE - PAGE  # PAGE_COUNTER_MAX, as memory.limit_in_bytes shows it
MOST_QUOTA = (1 << 44) - 1  # microseconds; MAX_BW of kernel/sched
MOST_NODES = 1024  # MAX_NUMNODES
STALL_PER_PAGE = 0.0001  # seconds; a read from a fast disk


class Stopped(BaseException):
    """The agent is no more, as if it had been killed right before this write.

    No `Exception`, so that nothing in the agent takes it for one to be handled.
    """


class Write(NamedTuple):
    """One that was tried; ``refused`` is the kernel's answer if it did not take it."""

    setting: Setting
    value: str
    refused: int | None


@dataclass(slots=True)
class Memory:
    """The memory of a group's own tasks, in bytes.

    Attributes:
        anonymous: Cannot be reclaimed, as there is no swap.
        reclaimable: Cached files.
        hot: The part of the cached files that the tasks keep reading: what of it is reclaimed
            is read back, which counts as refaults.
        growth: By this much ``anonymous`` grows in every `ModelKernel.elapse`, and between the
            agent's last look and each of its writes to the group's limits.
    """

    anonymous: int = 0
    reclaimable: int = 0
    hot: int = 0
    growth: int = 0

    @property
    def total(self) -> int:
        return self.anonymous + self.reclaimable


@dataclass(eq=False, slots=True)
class _Group:
    path: str
    identity: int
    parent: _Group | None
    children: dict[str, _Group] = field(default_factory=dict)
    tasks: int = 0
    # cpuset: what was written, and what holds, for "cpus" and "mems"
    own: dict[str, CpuSet] = field(default_factory=lambda: {"cpus": CpuSet(), "mems": CpuSet()})
    weight: int = 0
    quota: int | None = None  # microseconds in each period
    period: int = 100_000
    burst: int = 0
    memory: Memory = field(default_factory=Memory)
    limits: dict[str, int] = field(default_factory=dict)  # bytes, by the file's name
    counters: Counter[str] = field(default_factory=Counter)
    stall: float = 0.0  # seconds in all
    recent: float = 0.0  # percent of the last time that passed

    def subtree(self) -> Iterator[_Group]:
        yield self
        for child in self.children.values():
            yield from child.subtree()

    def lineage(self) -> Iterator[_Group]:
        """The group itself, its parent, and so on up."""
        group: _Group | None = self
        while group is not None:
            yield group
            group = group.parent

    @property
    def populated(self) -> bool:
        return any(group.tasks for group in self.subtree())

    @property
    def usage(self) -> int:
        return sum(group.memory.total for group in self.subtree())

    @property
    def reclaimable(self) -> int:
        return sum(group.memory.reclaimable for group in self.subtree())


class _Refused(Exception):  # noqa: N818 - the kernel's answer, before it has a file's name
    def __init__(self, number: int) -> None:
        self.errno = number


class ModelKernel:
    """The cgroups of a node, as `walras_agent.tree.Cgroups`.

    Args:
        version: Of the cgroup interface.
        cpus: How many CPUs there are.
        numa: How many NUMA nodes there are.
        nested: In v2, refuse to narrow a parent below a child, as kernels before 6.1 do.

    Attributes:
        writes: All that the agent tried, in order.
        oom_kills: Groups whose tasks were killed for want of memory, in order.
    """

    def __init__(
        self, version: Literal[1, 2], *, cpus: int = 8, numa: int = 1, nested: bool = False
    ) -> None:
        self.version = version
        self.writes: list[Write] = []
        self.oom_kills: list[str] = []
        self._cpus, self._nested = cpus, nested or version == 1
        self._made = 0
        self._left: int | None = None
        self._failures: dict[tuple[str, Setting], list[int]] = {}
        self._held: set[str] = set()
        self._root = self._new("/", None)
        self._root.own = {"cpus": CpuSet(range(cpus)), "mems": CpuSet(range(numa))}
        self._files = _FILES_V1 if version == 1 else _FILES_V2

    # What the agent sees.

    def read(self, setting: Setting) -> str:
        """See `Cgroups`."""
        try:
            self._fail("read", setting)
            return self._read(setting)
        except _Refused as refused:
            raise CgroupError(setting, refused.errno) from None

    def write(self, setting: Setting, value: str) -> None:
        """See `Cgroups`.

        Raises:
            Stopped: `stop_after` had it so.
        """
        if self._left is not None:
            if self._left == 0:
                raise Stopped
            self._left -= 1
        try:
            self._fail("write", setting)
            self._write(setting, value)
        except _Refused as refused:
            self.writes.append(Write(setting, value, refused.errno))
            raise CgroupError(setting, refused.errno, value) from None
        self.writes.append(Write(setting, value, None))

    def identity(self, group: str) -> int | None:
        """See `Cgroups`."""
        found = self._group(group)
        return found.identity if found else None

    def children(self, group: str) -> tuple[str, ...]:
        """See `Cgroups`."""
        found = self._group(group)
        return tuple(sorted(child.path for child in found.children.values())) if found else ()

    # What a test lets happen.

    def make(
        self,
        group: str,
        *,
        tasks: int = 0,
        cpus: str | None = None,
        memory: Memory | None = None,
    ) -> None:
        """Make a group, and those above it, as the kubelet and a container runtime do.

        Args:
            group: Its path.
            tasks: How many run in it.
            cpus: What it has in ``cpuset.cpus``; by default nothing in v2, and in v1, where tasks
                could not run with nothing, what the parent has.
            memory: Of its tasks.
        """
        made = self._root
        for name in group.strip("/").split("/"):
            parent = made
            if name not in parent.children:
                path = f"{parent.path.rstrip('/')}/{name}"
                parent.children[name] = self._new(path, parent)
                if self.version == 1:
                    parent.children[name].own = dict(parent.own)
            made = parent.children[name]
        if cpus is not None:
            _write_cpuset("cpus")(self, made, cpus)
        made.tasks += tasks
        if memory is not None:
            made.memory = memory

    def remove(self, group: str, *, while_open: bool = False) -> None:
        """Remove a group and all below it, with their tasks.

        Args:
            group: Its path.
            while_open: The agent's next access has opened the file before.
        """
        found = self._group(group)
        assert found is not None, group
        assert found.parent is not None, group
        del found.parent.children[group.rpartition("/")[2]]
        if while_open:
            self._held.add(group)

    def fail(
        self, setting: Setting, number: int, times: int = 1, on: Literal["read", "write"] = "write"
    ) -> None:
        """Answer the next accesses to a file with an error."""
        self._failures.setdefault((on, setting), []).extend([number] * times)

    def stop_after(self, writes: int) -> None:
        """Let this many more writes happen, and no other one until `go_on`."""
        self._left = writes

    def go_on(self) -> None:
        """The agent has been started again."""
        self._left = None

    def set_by_others(self, setting: Setting, value: str) -> None:
        """Write as kubelet, runtime and systemd do: the log has only what the agent did."""
        self._write(setting, value)

    def memory_of(self, group: str) -> Memory:
        """The memory of a group's own tasks, to look at or change."""
        found = self._group(group)
        assert found is not None, group
        return found.memory

    def tasks_of(self, group: str) -> int:
        """How many tasks a group has."""
        found = self._group(group)
        assert found is not None, group
        return found.tasks

    def offline(self, cpus: Iterable[int]) -> None:
        """Take CPUs off; v1 takes them out of all groups for good (cpusets.rst, section 1.2)."""
        online = self._root.own["cpus"] - CpuSet(cpus)
        assert online
        if self.version == 2:
            self._root.own["cpus"] = online
            return
        for group in self._root.subtree():
            left = group.own["cpus"] & online
            if group.own["cpus"] and not left:
                refuge = next(above for above in group.lineage() if above.own["cpus"] & online)
                refuge.tasks, group.tasks = refuge.tasks + group.tasks, 0
        for group in self._root.subtree():
            group.own["cpus"] &= online

    def online(self, cpus: Iterable[int]) -> None:
        """Bring CPUs back, for whom they are still listed."""
        self._root.own["cpus"] |= CpuSet(cpus)

    def elapse(self, seconds: float = 1.0) -> None:
        """Let time pass: tasks grow, and read back what they need of the files."""
        before = {group: group.stall for group in self._root.subtree()}
        for group in before:
            _grow(self, group)
            missing = group.memory.hot - group.memory.reclaimable
            if group.tasks and missing > 0:
                _charge(self, group, missing, "reclaimable")
                pages = -(-missing // PAGE)
                for each in group.lineage():
                    each.counters["refaults"] += pages
                    each.stall += pages * STALL_PER_PAGE
        for group, stall in before.items():
            group.recent = min(100.0, 100 * (group.stall - stall) / seconds)

    # How it is done.

    def effective(self, group: _Group, kind: str) -> CpuSet:
        """What the tasks of a group may use: of its own what the parent has, or all of that."""
        if group.parent is None:
            return group.own[kind]
        above = self.effective(group.parent, kind)
        return group.own[kind] & above or (above if self.version == 2 else CpuSet())

    def possible(self, kind: str) -> int:
        """Numbers from this one on are out of range."""
        return self._cpus if kind == "cpus" else MOST_NODES

    @property
    def nested(self) -> bool:
        """Whether a group must keep what its children have."""
        return self._nested

    def _new(self, path: str, parent: _Group | None) -> _Group:
        self._made += 1
        return _Group(path, self._made, parent, weight=1024 if self.version == 1 else 100)

    def _group(self, path: str) -> _Group | None:
        group: _Group | None = self._root
        for name in path.split("/"):
            if name and group is not None:
                group = group.children.get(name)
        return group

    def _find(self, setting: Setting) -> tuple[_Group, _File]:
        if setting.group in self._held:
            self._held.remove(setting.group)
            raise _Refused(errno.ENODEV)
        group = self._group(setting.group)
        file = self._files.get(setting.file)
        in_its_hierarchy = self.version == 2 or setting.file.startswith(f"{setting.controller}.")
        if group is None or file is None or not in_its_hierarchy:
            raise _Refused(errno.ENOENT)
        if self.version == 2 and group.parent is None and not file.at_the_top:
            raise _Refused(errno.ENOENT)
        return group, file

    def _read(self, setting: Setting) -> str:
        group, file = self._find(setting)
        if file.read is None:
            raise _Refused(errno.EINVAL)
        return file.read(self, group)

    def _write(self, setting: Setting, value: str) -> None:
        group, file = self._find(setting)
        if not value:
            return  # write(2) of no bytes never gets to the file
        if file.write is None:
            raise _Refused(errno.EINVAL)
        file.write(self, group, value.strip())

    def _fail(self, on: str, setting: Setting) -> None:
        failures = self._failures.get((on, setting))
        if failures:
            raise _Refused(failures.pop(0))


class _File(NamedTuple):
    read: Callable[[ModelKernel, _Group], str] | None
    write: Callable[[ModelKernel, _Group, str], None] | None = None
    at_the_top: bool = False


def _require(condition: object, number: int) -> None:
    if not condition:
        raise _Refused(number)


def _number(text: str) -> int:
    _require(text.isdecimal() and text.isascii(), errno.EINVAL)
    return int(text)


# cpuset


def _read_cpuset(kind: str) -> Callable[[ModelKernel, _Group], str]:
    return lambda _, group: str(group.own[kind])


def _read_effective(kind: str) -> Callable[[ModelKernel, _Group], str]:
    return lambda kernel, group: str(kernel.effective(group, kind))


def _write_cpuset(kind: str) -> Callable[[ModelKernel, _Group, str], None]:
    def write(kernel: ModelKernel, group: _Group, text: str) -> None:
        _require(group.parent, errno.EACCES)
        assert group.parent is not None
        try:
            # The kernel's parser skips empty parts of the list.
            wanted = CpuSet.parse(",".join(part for part in text.strip().split(",") if part))
        except ValueError:
            raise _Refused(errno.EINVAL) from None
        top = next(each for each in group.lineage() if each.parent is None).own[kind]
        _require(all(number < kernel.possible(kind) for number in wanted), errno.ERANGE)
        # In v2 a CPU may be listed before it comes online; a NUMA node may not.
        _require(wanted <= top or (kernel.version == 2 and kind == "cpus"), errno.EINVAL)
        if wanted == group.own[kind]:
            return
        if kernel.nested:
            kept = all(child.own[kind] <= wanted for child in group.children.values())
            _require(kept, errno.EBUSY)
        if kernel.version == 1:
            _require(wanted <= group.parent.own[kind], errno.EACCES)
        _require(wanted or not group.populated, errno.ENOSPC)
        group.own[kind] = wanted

    return write


# cpu


def _write_shares(_: ModelKernel, group: _Group, text: str) -> None:
    _require(group.parent, errno.EINVAL)
    group.weight = min(max(_number(text), 2), 1 << 18)


def _write_weight(_: ModelKernel, group: _Group, text: str) -> None:
    weight = _number(text)
    _require(1 <= weight <= 10_000, errno.ERANGE)
    group.weight = weight


def _set_bandwidth(
    kernel: ModelKernel, group: _Group, quota: int | None, period: int, burst: int
) -> None:
    """``tg_set_cfs_bandwidth``: all three are judged together, and in v1 against the tree."""
    _require(group.parent, errno.EINVAL)
    _require(1000 <= period <= 1_000_000, errno.EINVAL)
    if quota is not None:
        _require(1000 <= quota <= MOST_QUOTA, errno.EINVAL)
        _require(burst <= quota and burst + quota <= MOST_QUOTA, errno.EINVAL)
    before = group.quota, group.period
    group.quota, group.period = quota, period
    top = next(each for each in group.lineage() if each.parent is None)
    if kernel.version == 1 and not _schedulable(top, None):
        group.quota, group.period = before
        raise _Refused(errno.EINVAL)
    group.burst = burst


def _schedulable(group: _Group, above: int | None) -> bool:
    """``tg_cfs_schedulable_down``: no group may have a greater part of the time than its parent."""
    ratio = above if group.quota is None else (group.quota << 20) // group.period
    if ratio is not None and above is not None and ratio > above:
        return False
    return all(_schedulable(child, ratio) for child in group.children.values())


def _write_quota(kernel: ModelKernel, group: _Group, text: str) -> None:
    negative = text.startswith("-")
    quota = _number(text[1:] if negative else text)
    _set_bandwidth(kernel, group, None if negative else quota, group.period, group.burst)


def _write_period(kernel: ModelKernel, group: _Group, text: str) -> None:
    _set_bandwidth(kernel, group, group.quota, _number(text), group.burst)


def _write_burst(kernel: ModelKernel, group: _Group, text: str) -> None:
    _set_bandwidth(kernel, group, group.quota, group.period, _number(text))


def _read_max(_: ModelKernel, group: _Group) -> str:
    return f"{'max' if group.quota is None else group.quota} {group.period}"


def _write_max(kernel: ModelKernel, group: _Group, text: str) -> None:
    _require(text, errno.EINVAL)
    quota, *rest = text.split()
    period = _number(rest[0]) if rest else group.period
    _set_bandwidth(kernel, group, None if quota == "max" else _number(quota), period, group.burst)


# memory


def _bytes(text: str) -> int:
    """``memparse``, in whole pages; nothing is nought."""
    scale = "kmgtpe".find(text[-1:].lower()) + 1 if text else 0
    digits = text[:-1] if scale else text
    amount = _number(digits) if digits else 0
    return min(amount << (10 * scale), UNLIMITED) // PAGE * PAGE


def _grow(kernel: ModelKernel, group: _Group) -> None:
    if group.memory.growth and group.tasks:
        _charge(kernel, group, group.memory.growth, "anonymous")


def _charge(
    kernel: ModelKernel, group: _Group, amount: int, kind: Literal["anonymous", "reclaimable"]
) -> None:
    """Give tasks memory; from groups at their limit some is taken first, by force if need be."""
    setattr(group.memory, kind, getattr(group.memory, kind) + amount)
    for above in group.lineage():
        limit = min(_limit(above, "memory.max"), _limit(above, "memory.limit_in_bytes"))
        if above.usage > limit:
            above.counters["max"] += 1
            _reclaim(above, above.usage - limit)
            _kill_above(kernel, above, limit)
        high = _limit(above, "memory.high")
        if above.usage > high:
            above.counters["high"] += 1
            _reclaim(above, above.usage - high)


def _limit(group: _Group, file: str) -> int:
    return group.limits.get(file, UNLIMITED)


def _reclaim(group: _Group, amount: int) -> int:
    """Take cached files from a group and those below; returns how many bytes could be had."""
    left = amount
    for each in group.subtree():
        taken = min(left, each.memory.reclaimable)
        each.memory.reclaimable -= taken
        left -= taken
    return amount - left


def _kill_above(kernel: ModelKernel, group: _Group, limit: int) -> None:
    """The OOM killer: the largest goes first, until the rest fits."""
    while group.usage > limit:
        victim = max(group.subtree(), key=lambda each: (each.memory.anonymous, each.path))
        if not victim.memory.anonymous:
            return
        victim.memory.anonymous = victim.memory.growth = victim.tasks = 0
        kernel.oom_kills.append(victim.path)
        for above in victim.lineage():
            above.counters["oom_kill"] += 1


def _read_usage(_: ModelKernel, group: _Group) -> str:
    return str(group.usage)


def _read_limit_v1(file: str) -> Callable[[ModelKernel, _Group], str]:
    return lambda _, group: str(_limit(group, file))


def _write_limit_v1(file: str) -> Callable[[ModelKernel, _Group, str], None]:
    """``mem_cgroup_resize_max``: the limit is refused where reclaim does not get there."""

    def write(kernel: ModelKernel, group: _Group, text: str) -> None:
        _require(group.parent, errno.EINVAL)
        wanted = UNLIMITED if text == "-1" else _bytes(text)
        _grow(kernel, group)
        if file == "memory.limit_in_bytes":
            _require(wanted <= _limit(group, "memory.memsw.limit_in_bytes"), errno.EINVAL)
        else:
            _require(wanted >= _limit(group, "memory.limit_in_bytes"), errno.EINVAL)
        _reclaim(group, max(0, group.usage - wanted))
        _require(group.usage <= wanted, errno.EBUSY)
        group.limits[file] = wanted

    return write


def _write_soft_limit(_: ModelKernel, group: _Group, text: str) -> None:
    group.limits["memory.soft_limit_in_bytes"] = UNLIMITED if text == "-1" else _bytes(text)


def _reset_failcnt(_: ModelKernel, group: _Group, text: str) -> None:
    group.counters["max"] = 0


def _read_limit_v2(file: str, unset: int) -> Callable[[ModelKernel, _Group], str]:
    def read(_: ModelKernel, group: _Group) -> str:
        limit = group.limits.get(file, unset)
        return "max" if limit == UNLIMITED else str(limit)

    return read


def _write_limit_v2(file: str) -> Callable[[ModelKernel, _Group, str], None]:
    """The limit holds at once; ``memory.max`` then reclaims, and kills until the rest fits."""

    def write(kernel: ModelKernel, group: _Group, text: str) -> None:
        wanted = UNLIMITED if text == "max" else _bytes(text)
        _grow(kernel, group)
        group.limits[file] = wanted
        if file in {"memory.max", "memory.high"}:
            _reclaim(group, max(0, group.usage - wanted))
        if file == "memory.max":
            _kill_above(kernel, group, wanted)

    return write


def _write_reclaim(_: ModelKernel, group: _Group, text: str) -> None:
    wanted = _bytes(text)
    _require(_reclaim(group, wanted) >= wanted, errno.EAGAIN)


def _read_stat(kernel: ModelKernel, group: _Group) -> str:
    anonymous = sum(each.memory.anonymous for each in group.subtree())
    refaults = group.counters["refaults"]
    if kernel.version == 2:
        return (
            f"anon {anonymous}\nfile {group.reclaimable}\n"
            f"inactive_anon {anonymous}\nactive_anon 0\n"
            f"inactive_file {group.reclaimable}\nactive_file 0\n"
            f"workingset_refault_anon 0\nworkingset_refault_file {refaults}"
        )
    own, children = group.memory, group.children.values()
    own_refaults = refaults - sum(child.counters["refaults"] for child in children)
    return (
        f"cache {own.reclaimable}\nrss {own.anonymous}\n"
        f"workingset_refault_anon 0\nworkingset_refault_file {own_refaults}\n"
        f"inactive_file {own.reclaimable}\nactive_file 0\n"
        f"total_cache {group.reclaimable}\ntotal_rss {anonymous}\n"
        f"total_workingset_refault_anon 0\ntotal_workingset_refault_file {refaults}\n"
        f"total_inactive_file {group.reclaimable}\ntotal_active_file 0"
    )


def _read_events(_: ModelKernel, group: _Group) -> str:
    high, limit, kills = (group.counters[name] for name in ("high", "max", "oom_kill"))
    return f"low 0\nhigh {high}\nmax {limit}\noom {kills}\noom_kill {kills}\noom_group_kill 0"


def _read_pressure(_: ModelKernel, group: _Group) -> str:
    """As ``Documentation/accounting/psi.rst`` has it, with all averages over the last time."""
    averages = " ".join(f"avg{span}={group.recent:.2f}" for span in (10, 60, 300))
    total = round(group.stall * 1e6)
    return f"some {averages} total={total}\nfull {averages} total={total}"


_FILES_V1 = {
    "cpuset.cpus": _File(_read_cpuset("cpus"), _write_cpuset("cpus")),
    "cpuset.mems": _File(_read_cpuset("mems"), _write_cpuset("mems")),
    "cpuset.effective_cpus": _File(_read_effective("cpus")),
    "cpuset.effective_mems": _File(_read_effective("mems")),
    "cpu.shares": _File(lambda _, group: str(group.weight), _write_shares),
    "cpu.cfs_quota_us": _File(
        lambda _, group: str(-1 if group.quota is None else group.quota), _write_quota
    ),
    "cpu.cfs_period_us": _File(lambda _, group: str(group.period), _write_period),
    "cpu.cfs_burst_us": _File(lambda _, group: str(group.burst), _write_burst),
    **{
        file: _File(_read_limit_v1(file), _write_limit_v1(file))
        for file in ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
    },
    "memory.soft_limit_in_bytes": _File(
        _read_limit_v1("memory.soft_limit_in_bytes"), _write_soft_limit
    ),
    "memory.usage_in_bytes": _File(_read_usage),
    "memory.memsw.usage_in_bytes": _File(_read_usage),
    "memory.failcnt": _File(lambda _, group: str(group.counters["max"]), _reset_failcnt),
    "memory.stat": _File(_read_stat),
}

_FILES_V2 = {
    "cpuset.cpus": _File(_read_cpuset("cpus"), _write_cpuset("cpus")),
    "cpuset.mems": _File(_read_cpuset("mems"), _write_cpuset("mems")),
    "cpuset.cpus.effective": _File(_read_effective("cpus"), at_the_top=True),
    "cpuset.mems.effective": _File(_read_effective("mems"), at_the_top=True),
    "cpu.weight": _File(lambda _, group: str(group.weight), _write_weight),
    "cpu.max": _File(_read_max, _write_max),
    "cpu.max.burst": _File(lambda _, group: str(group.burst), _write_burst),
    **{
        file: _File(_read_limit_v2(file, unset), _write_limit_v2(file))
        for file, unset in {
            "memory.min": 0,
            "memory.low": 0,
            "memory.high": UNLIMITED,
            "memory.max": UNLIMITED,
        }.items()
    },
    "memory.current": _File(_read_usage),
    "memory.reclaim": _File(None, _write_reclaim, at_the_top=True),
    "memory.stat": _File(_read_stat, at_the_top=True),
    "memory.events": _File(_read_events),
    "memory.pressure": _File(_read_pressure, at_the_top=True),
}
