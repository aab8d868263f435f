"""The content of each file of a cgroup in the model of the kernel (model_kernel.py).

Functions and tables by controller: cpuset, cpu, memory. A write either changes the group or
raises `Refused` with the kernel's errno.
"""

from __future__ import annotations

import errno
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from walras_agent.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PAGE = 4096
UNLIMITED = (1 << 63) // PAGE * PAGE - PAGE  # PAGE_COUNTER_MAX, as memory.limit_in_bytes shows it
MOST_QUOTA = (1 << 44) - 1  # microseconds; MAX_BW of kernel/sched
MOST_NODES = 1024  # MAX_NUMNODES


@dataclass(frozen=True, slots=True)
class Machine:
    """The properties of a machine that all its cgroups share.

    Attributes:
        version: Version of the cgroup interface.
        cpus: Number of CPUs.
        nested: Whether a group must keep the CPUs that its children have.
        oom_kills: Groups whose tasks were killed for want of memory, in order.
    """

    version: Literal[1, 2]
    cpus: int
    nested: bool
    oom_kills: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Memory:
    """The memory of a group's own tasks, in bytes.

    Attributes:
        anonymous: Anonymous memory, which cannot be reclaimed, as there is no swap.
        reclaimable: Memory of cached files, which can be reclaimed.
        hot: Part of the cached files that the tasks keep reading: if it is reclaimed, it is read
            back, which counts as refaults.
        growth: Growth of ``anonymous`` in every `ModelKernel.elapse`, and between the agent's last
            look and each of its writes to the group's limits.
    """

    anonymous: int = 0
    reclaimable: int = 0
    hot: int = 0
    growth: int = 0

    @property
    def total(self) -> int:
        return self.anonymous + self.reclaimable


@dataclass(eq=False, slots=True)
class Group:
    """One cgroup, with the state of all controllers."""

    path: str
    identity: int
    parent: Group | None
    children: dict[str, Group] = field(default_factory=dict)
    tasks: int = 0
    # cpuset.cpus and cpuset.mems, as they were written
    own: dict[str, CpuSet] = field(default_factory=lambda: {"cpus": CpuSet(), "mems": CpuSet()})
    weight: int = 0
    quota: int | None = None  # microseconds in each period
    period: int = 100_000
    burst: int = 0
    # CPU seconds that the tasks used, and seconds in which one of them waited, and their rates
    cpu_used: float = 0.0
    cpu_waited: float = 0.0
    cpu_rates: tuple[float, float] = (0.0, 0.0)
    memory: Memory = field(default_factory=Memory)
    limits: dict[str, int] = field(default_factory=dict)  # bytes, by the file's name
    counters: Counter[str] = field(default_factory=Counter)
    stall: float = 0.0  # seconds in all
    recent: float = 0.0  # percent of the last time that passed
    kills: bool = True  # at the hard limit; tasks wait there otherwise (v1)

    def subtree(self) -> Iterator[Group]:
        """Yield the group itself and all groups below it, parents first."""
        yield self
        for child in self.children.values():
            yield from child.subtree()

    def lineage(self) -> Iterator[Group]:
        """Yield the group itself, its parent, and so on up to the top."""
        group: Group | None = self
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


class Refused(Exception):  # noqa: N818 - as the kernel says it
    """An error number with which the kernel refuses an access; the file is not named."""

    def __init__(self, number: int) -> None:
        self.errno = number


class File(NamedTuple):
    """A file of every group; ``read`` or ``write`` is None if it cannot be read or written."""

    read: Callable[[Machine, Group], str] | None
    write: Callable[[Machine, Group, str], None] | None = None
    at_the_top: bool = False


def _require(condition: object, number: int) -> None:
    if not condition:
        raise Refused(number)


def _number(text: str) -> int:
    _require(text.isdecimal() and text.isascii(), errno.EINVAL)
    return int(text)


# cpuset


def effective(machine: Machine, group: Group, kind: str) -> CpuSet:
    """Return the CPUs or memory nodes in effect for a group's tasks: its own, or its parent's."""
    if group.parent is None:
        return group.own[kind]
    above = effective(machine, group.parent, kind)
    return group.own[kind] & above or (above if machine.version == 2 else CpuSet())


def _read_cpuset(kind: str) -> Callable[[Machine, Group], str]:
    return lambda _, group: str(group.own[kind])


def _read_effective(kind: str) -> Callable[[Machine, Group], str]:
    return lambda machine, group: str(effective(machine, group, kind))


def write_cpuset(kind: str) -> Callable[[Machine, Group, str], None]:
    """Return the function that writes ``cpuset.cpus`` or ``cpuset.mems``."""

    def write(machine: Machine, group: Group, text: str) -> None:
        _require(group.parent, errno.EACCES)
        assert group.parent is not None
        try:
            # The kernel's parser skips empty parts of the list.
            wanted = CpuSet.parse(",".join(part for part in text.strip().split(",") if part))
        except ValueError:
            raise Refused(errno.EINVAL) from None
        top = next(each for each in group.lineage() if each.parent is None).own[kind]
        possible = machine.cpus if kind == "cpus" else MOST_NODES
        _require(all(number < possible for number in wanted), errno.ERANGE)
        # In v2 a CPU may be listed before it comes online; a NUMA node may not.
        _require(wanted <= top or (machine.version == 2 and kind == "cpus"), errno.EINVAL)
        if wanted == group.own[kind]:
            return
        if machine.nested:
            kept = all(child.own[kind] <= wanted for child in group.children.values())
            _require(kept, errno.EBUSY)
        if machine.version == 1:
            _require(wanted <= group.parent.own[kind], errno.EACCES)
        _require(wanted or not group.populated, errno.ENOSPC)
        group.own[kind] = wanted

    return write


# cpu


def _write_shares(_: Machine, group: Group, text: str) -> None:
    _require(group.parent, errno.EINVAL)
    group.weight = min(max(_number(text), 2), 1 << 18)


def _write_weight(_: Machine, group: Group, text: str) -> None:
    weight = _number(text)
    _require(1 <= weight <= 10_000, errno.ERANGE)
    group.weight = weight


def _set_bandwidth(
    machine: Machine, group: Group, quota: int | None, period: int, burst: int
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
    if machine.version == 1 and not _schedulable(top, None):
        group.quota, group.period = before
        raise Refused(errno.EINVAL)
    group.burst = burst


def _schedulable(group: Group, above: int | None) -> bool:
    """``tg_cfs_schedulable_down``: no group may have a greater part of the time than its parent."""
    ratio = above if group.quota is None else (group.quota << 20) // group.period
    if ratio is not None and above is not None and ratio > above:
        return False
    return all(_schedulable(child, ratio) for child in group.children.values())


def _write_quota(machine: Machine, group: Group, text: str) -> None:
    negative = text.startswith("-")
    quota = _number(text[1:] if negative else text)
    _set_bandwidth(machine, group, None if negative else quota, group.period, group.burst)


def _write_period(machine: Machine, group: Group, text: str) -> None:
    _set_bandwidth(machine, group, group.quota, _number(text), group.burst)


def _write_burst(machine: Machine, group: Group, text: str) -> None:
    _set_bandwidth(machine, group, group.quota, group.period, _number(text))


def _read_max(_: Machine, group: Group) -> str:
    return f"{'max' if group.quota is None else group.quota} {group.period}"


def _write_max(machine: Machine, group: Group, text: str) -> None:
    _require(text, errno.EINVAL)
    quota, *rest = text.split()
    period = _number(rest[0]) if rest else group.period
    _set_bandwidth(machine, group, None if quota == "max" else _number(quota), period, group.burst)


# memory


def _bytes(text: str) -> int:
    """Return the bytes of a text as ``memparse`` reads it, in whole pages; 0 if it is empty."""
    scale = "kmgtpe".find(text[-1:].lower()) + 1 if text else 0
    digits = text[:-1] if scale else text
    amount = _number(digits) if digits else 0
    return min(amount << (10 * scale), UNLIMITED) // PAGE * PAGE


def grow(machine: Machine, group: Group) -> None:
    """Let a group's tasks, if it has any, take the memory by which they grow."""
    if group.memory.growth and group.tasks:
        charge(machine, group, group.memory.growth, "anonymous")


def charge(
    machine: Machine, group: Group, amount: int, kind: Literal["anonymous", "reclaimable"]
) -> None:
    """Give a group's tasks memory; groups over a limit reclaim some, and then kill or refuse."""
    setattr(group.memory, kind, getattr(group.memory, kind) + amount)
    for above in group.lineage():
        limit = min(_limit(above, "memory.max"), _limit(above, "memory.limit_in_bytes"))
        if above.usage > limit:
            above.counters["max"] += 1
            _reclaim(above, above.usage - limit)
            if above.usage > limit and not above.kills:
                setattr(group.memory, kind, getattr(group.memory, kind) - amount)
                return  # the task waits for its memory
            _kill_above(machine, above, limit)
        high = _limit(above, "memory.high")
        if above.usage > high:
            above.counters["high"] += 1
            _reclaim(above, above.usage - high)


def _limit(group: Group, file: str) -> int:
    return group.limits.get(file, UNLIMITED)


def _reclaim(group: Group, amount: int) -> int:
    """Reclaim cached files of a group and those below it; return the number of bytes reclaimed."""
    left = amount
    for each in group.subtree():
        taken = min(left, each.memory.reclaimable)
        each.memory.reclaimable -= taken
        left -= taken
    return amount - left


def _kill_above(machine: Machine, group: Group, limit: int) -> None:
    """Kill the tasks of the largest groups until a group fits its limit, as the OOM killer does."""
    while group.usage > limit:
        victim = max(group.subtree(), key=lambda each: (each.memory.anonymous, each.path))
        if not victim.memory.anonymous:
            return
        victim.memory.anonymous = victim.memory.growth = victim.tasks = 0
        machine.oom_kills.append(victim.path)
        for above in victim.lineage():
            above.counters["oom_kill"] += 1


def _read_usage(_: Machine, group: Group) -> str:
    return str(group.usage)


def _read_limit_v1(file: str) -> Callable[[Machine, Group], str]:
    return lambda _, group: str(_limit(group, file))


def _write_limit_v1(file: str) -> Callable[[Machine, Group, str], None]:
    """Return the function that writes a limit, which is refused if usage cannot be reclaimed to it.

    In the kernel, this is ``mem_cgroup_resize_max``.
    """

    def write(machine: Machine, group: Group, text: str) -> None:
        _require(group.parent, errno.EINVAL)
        wanted = UNLIMITED if text == "-1" else _bytes(text)
        grow(machine, group)
        if file == "memory.limit_in_bytes":
            _require(wanted <= _limit(group, "memory.memsw.limit_in_bytes"), errno.EINVAL)
        else:
            _require(wanted >= _limit(group, "memory.limit_in_bytes"), errno.EINVAL)
        _reclaim(group, max(0, group.usage - wanted))
        _require(group.usage <= wanted, errno.EBUSY)
        group.limits[file] = wanted

    return write


def _write_soft_limit(_: Machine, group: Group, text: str) -> None:
    group.limits["memory.soft_limit_in_bytes"] = UNLIMITED if text == "-1" else _bytes(text)


def _read_oom_control(_: Machine, group: Group) -> str:
    kills = group.counters["oom_kill"]
    return f"oom_kill_disable {int(not group.kills)}\nunder_oom 0\noom_kill {kills}"


def _write_oom_control(_: Machine, group: Group, text: str) -> None:
    _require(group.parent and text in {"0", "1"}, errno.EINVAL)
    group.kills = text == "0"


def _reset_failcnt(_: Machine, group: Group, text: str) -> None:
    group.counters["max"] = 0


def _read_limit_v2(file: str, unset: int) -> Callable[[Machine, Group], str]:
    def read(_: Machine, group: Group) -> str:
        limit = group.limits.get(file, unset)
        return "max" if limit == UNLIMITED else str(limit)

    return read


def _write_limit_v2(file: str) -> Callable[[Machine, Group, str], None]:
    """The limit holds at once; ``memory.max`` then reclaims, and kills until the rest fits."""

    def write(machine: Machine, group: Group, text: str) -> None:
        wanted = UNLIMITED if text == "max" else _bytes(text)
        grow(machine, group)
        group.limits[file] = wanted
        if file in {"memory.max", "memory.high"}:
            _reclaim(group, max(0, group.usage - wanted))
        if file == "memory.max":
            _kill_above(machine, group, wanted)

    return write


def _write_reclaim(_: Machine, group: Group, text: str) -> None:
    wanted = _bytes(text)
    _require(_reclaim(group, wanted) >= wanted, errno.EAGAIN)


def _read_stat(machine: Machine, group: Group) -> str:
    anonymous = sum(each.memory.anonymous for each in group.subtree())
    refaults = group.counters["refaults"]
    if machine.version == 2:
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


def _read_events(_: Machine, group: Group) -> str:
    high, limit, kills = (group.counters[name] for name in ("high", "max", "oom_kill"))
    return f"low 0\nhigh {high}\nmax {limit}\noom {kills}\noom_kill {kills}\noom_group_kill 0"


def _read_pressure(_: Machine, group: Group) -> str:
    """Return memory.pressure as in ``Documentation/accounting/psi.rst``, with equal averages."""
    averages = " ".join(f"avg{span}={group.recent:.2f}" for span in (10, 60, 300))
    total = round(group.stall * 1e6)
    return f"some {averages} total={total}\nfull {averages} total={total}"


FILES_V1 = {
    "cpuset.cpus": File(_read_cpuset("cpus"), write_cpuset("cpus")),
    "cpuset.mems": File(_read_cpuset("mems"), write_cpuset("mems")),
    "cpuset.effective_cpus": File(_read_effective("cpus")),
    "cpuset.effective_mems": File(_read_effective("mems")),
    "cpuacct.usage": File(lambda _, group: str(int(group.cpu_used * 1e9))),
    "cpu.shares": File(lambda _, group: str(group.weight), _write_shares),
    "cpu.cfs_quota_us": File(
        lambda _, group: str(-1 if group.quota is None else group.quota), _write_quota
    ),
    "cpu.cfs_period_us": File(lambda _, group: str(group.period), _write_period),
    "cpu.cfs_burst_us": File(lambda _, group: str(group.burst), _write_burst),
    **{
        file: File(_read_limit_v1(file), _write_limit_v1(file))
        for file in ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
    },
    "memory.soft_limit_in_bytes": File(
        _read_limit_v1("memory.soft_limit_in_bytes"), _write_soft_limit
    ),
    "memory.usage_in_bytes": File(_read_usage),
    "memory.memsw.usage_in_bytes": File(_read_usage),
    "memory.oom_control": File(_read_oom_control, _write_oom_control),
    "memory.failcnt": File(lambda _, group: str(group.counters["max"]), _reset_failcnt),
    "memory.stat": File(_read_stat),
}

FILES_V2 = {
    "cpuset.cpus": File(_read_cpuset("cpus"), write_cpuset("cpus")),
    "cpuset.mems": File(_read_cpuset("mems"), write_cpuset("mems")),
    "cpuset.cpus.effective": File(_read_effective("cpus"), at_the_top=True),
    "cpuset.mems.effective": File(_read_effective("mems"), at_the_top=True),
    "cpu.weight": File(lambda _, group: str(group.weight), _write_weight),
    "cpu.stat": File(lambda _, group: f"usage_usec {int(group.cpu_used * 1e6)}\nuser_usec 0"),
    "cpu.pressure": File(
        lambda _, group: f"some avg10=0.00 total={int(group.cpu_waited * 1e6)}\nfull total=0"
    ),
    "pids.current": File(lambda _, group: str(sum(each.tasks for each in group.subtree()))),
    "cpu.max": File(_read_max, _write_max),
    "cpu.max.burst": File(lambda _, group: str(group.burst), _write_burst),
    **{
        file: File(_read_limit_v2(file, unset), _write_limit_v2(file))
        for file, unset in {
            "memory.min": 0,
            "memory.low": 0,
            "memory.high": UNLIMITED,
            "memory.max": UNLIMITED,
        }.items()
    },
    "memory.current": File(_read_usage),
    "memory.reclaim": File(None, _write_reclaim, at_the_top=True),
    "memory.stat": File(_read_stat, at_the_top=True),
    "memory.events": File(_read_events),
    "memory.pressure": File(_read_pressure, at_the_top=True),
}
