"""A kernel model on which others act at any moment of the agent, and an independent judge of it.

A moment is right before any read, fsync or write of the agent. What others write at that moment is
what they want from then on, so it is what must be there once all grants have ended. One thing is
left out: others never write the very file that the agent is about to write, at that moment: the
agent has read it a few microseconds before, and no system call compares and writes.

The judge knows what others have written and what is in the kernel, and nothing that the agent says.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, NamedTuple

from model_files import Refused
from model_kernel import ModelKernel, Stopped
from walras_agent.cpuset import CpuSet
from walras_agent.tree import CgroupFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

EFFECTIVE = {1: "cpuset.effective_cpus", 2: "cpuset.cpus.effective"}


class Foreign(NamedTuple):
    """A write of others: of a kubelet that resizes a pod, of systemd, of an administrator."""

    setting: CgroupFile
    value: str


class ReadError(NamedTuple):
    """From a moment on, reads of a file fail with an error number, for a number of reads."""

    setting: CgroupFile
    number: int
    times: int = 1


class Death(NamedTuple):
    """The agent dies."""


Happening = Foreign | ReadError | Death


class InterleavedKernel(ModelKernel):
    """A kernel model on which something happens at given moments of the agent.

    Attributes:
        moments: Number of moments that have passed.
        happenings: What happens, by moment.
        wanted: Text of every file that others have written, as they want it.
        double: Sentences about CPUs that had two owners.
    """

    def __init__(
        self, version: Literal[1, 2], *, cpus: int, happenings: Mapping[int, Happening]
    ) -> None:
        super().__init__(version, cpus=cpus)
        self.moments = 0
        self.happenings = happenings
        self.wanted: dict[CgroupFile, str] = {}
        self.double: list[str] = []
        self.pods: dict[str, str] = {}  # of granted containers
        self.ungranted: set[str] = set()
        self._confined: set[str] = set()  # containers whose CPUs the agent has written last

    def want(self, setting: CgroupFile, value: str) -> None:
        """Let others write a file."""
        self.set_by_others(setting, value)
        self.wanted[setting] = self._read(setting)
        if setting.file == "cpuset.cpus":
            self._confined.discard(setting.group)

    def moment(self, writing: CgroupFile | None = None) -> None:
        """Let happen what is to happen now."""
        happening = self.happenings.get(self.moments)
        self.moments += 1
        match happening:
            case Foreign(setting, value) if setting != writing:
                with suppress(Refused):  # the kernel may refuse theirs, too
                    self.want(setting, value)
            case ReadError(setting, number, times):
                self.fail(setting, number, times, on="read")
            case Death():
                raise Stopped
            case _:
                pass

    def read(self, setting: CgroupFile) -> str:
        self.moment()
        return super().read(setting)

    def write(self, setting: CgroupFile, value: str) -> None:
        self.moment(setting)
        super().write(setting, value)
        if setting.file == "cpuset.cpus":
            self._confined.add(setting.group)
            self._judge_owners(setting)

    def _judge_owners(self, setting: CgroupFile) -> None:
        """Note CPUs that are of two pods, and of nobody without a grant, so that they are owned.

        Only containers count whose CPUs the agent has written last.
        """
        users: defaultdict[int, set[str]] = defaultdict(set)
        for group, pod in self.pods.items():
            for cpu in self.cpus(group) if group in self._confined else ():
                users[cpu].add(pod)
        if not self.ungranted <= self._confined:
            return
        shared = {cpu for group in self.ungranted for cpu in self.cpus(group)}
        for cpu, pods in users.items():
            if len(pods) > 1 and cpu not in shared:
                self.double.append(f"CPU {cpu} is of {sorted(pods)} after a write to {setting}")

    def cpus(self, group: str) -> CpuSet:
        """Return the CPUs that a group's tasks may use."""
        return CpuSet.parse(self._read(CgroupFile("cpuset", group, EFFECTIVE[self.version])))

    def lost(self) -> Iterable[str]:
        """Yield a sentence for each file that is not as others want it."""
        for setting, wanted in self.wanted.items():
            now = self._read(setting)
            if setting.file == "cpuset.cpus":
                everything = self.cpus("/")
                same = (CpuSet.parse(now) or everything) == (CpuSet.parse(wanted) or everything)
            elif setting.file == "cpu.cfs_quota_us":
                # The kernel refuses a quota above that of the group above, which then counts.
                above = self._read(setting._replace(group=setting.group.rpartition("/")[0]))
                same = now == wanted or (now == "-1" and 0 < int(above) < int(wanted))
            else:
                same = now == wanted
            if not same:
                yield f"{setting} is {now!r}; others want {wanted!r}"
