"""A kernel model on which others act at any moment of the agent, and an independent judge of it.

A moment is right before any read, fsync or write of the agent. What others write at that moment is
what they want from then on, so it is what must be there once all grants have ended. Two things are
left out, which no agent can tell: others never write the very file that the agent is about to
write, at that moment, since no system call compares and writes; and never a value that the agent
has written to the file itself.

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
    from collections.abc import Iterable, Iterator, Mapping, Sequence

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
        fsyncs: Moments of fsyncs.
        happenings: What happens, by moment.
        wanted: Text of every file that others have written, as they want it.
        taken: Sentences about CPUs that were given to a pod before their owner had left them.
        pods: Pods by container.
        anybody: A container without a grant whose CPUs nobody else writes: it may use all CPUs that
            no pod owns.
    """

    def __init__(self, version: Literal[1, 2], *, cpus: int) -> None:
        super().__init__(version, cpus=cpus)
        self.moments = 0
        self.fsyncs: list[int] = []
        self.happenings: Mapping[int, Sequence[Happening]] = {}
        self.wanted: dict[CgroupFile, str] = {}
        self.pods: dict[str, str] = {}
        self.anybody = ""
        self._own: defaultdict[CgroupFile, set[str]] = defaultdict(set)  # that the agent wrote
        self._chosen: set[str] = set()  # containers whose CPUs others have written last
        self._owners: dict[int, set[str]] = {}  # after the last pass
        self._settled: dict[int, set[str]] = {}  # those that were the same a pass before
        self._gains: list[tuple[str, int, str]] = []
        self.taken: list[str] = []
        self._is_new = False  # the agent, which has died and made no pass since

    def want(self, setting: CgroupFile, value: str) -> None:
        """Let others write a file."""
        self.set_by_others(setting, value)
        self.wanted[setting] = self._read(setting)
        if setting.file == "cpuset.cpus":
            self._chosen.add(setting.group)

    def moment(self, writing: CgroupFile | None = None) -> None:
        """Let happen what is to happen now."""
        now = self.happenings.get(self.moments, ())
        self.moments += 1
        for happening in now:
            match happening:
                case Foreign(setting, value):
                    if setting != writing and value not in self._own[setting]:
                        with suppress(Refused):  # the kernel may refuse theirs, too
                            self.want(setting, value)
                case ReadError(setting, number, times):
                    self.fail(setting, number, times, on="read")
                case Death():
                    self._is_new = True
                    raise Stopped

    def _lose_weights(self) -> None:
        """Want no weights of others any longer: an agent that begins takes those that it finds."""
        self.wanted = {
            setting: text
            for setting, text in self.wanted.items()
            if setting.file not in {"cpu.weight", "cpu.shares"}
        }

    def read(self, setting: CgroupFile) -> str:
        self.moment()
        return super().read(setting)

    def write(self, setting: CgroupFile, value: str) -> None:
        self.moment(setting)
        if setting.file != "cpuset.cpus" or setting.group not in self.pods:
            super().write(setting, value)
            self._own[setting].add(value)
            return
        before = self.cpus(setting.group)
        super().write(setting, value)
        self._own[setting].add(value)
        self._chosen.discard(setting.group)
        for group, pod in self.pods.items():
            for cpu in (self.cpus(setting.group) - before) & self.cpus(group):
                is_owner = self._settled.get(cpu) == {pod} and group not in self._chosen
                if pod != self.pods[setting.group] and is_owner:
                    self._gains.append((setting.group, cpu, group))

    def forget_owners(self) -> None:
        """Let nobody own a CPU from now on, as all grants end."""
        self._owners, self._settled = {}, {}

    def end_pass(self) -> None:
        """Note which pod owns which CPU, after every pass of the agent, and who took one early.

        A CPU may be given to others while its owner is on it only if the owner stays there, too:
        then it is shared from now on.
        """
        if self._is_new:
            self._lose_weights()
            self._is_new = False
        for container, cpu, owner in self._gains:
            if owner in self._chosen:
                continue
            if cpu in self.cpus(container) and cpu not in self.cpus(owner):
                self.taken.append(f"{container} was given CPU {cpu} before {owner} had left it")
        self._gains.clear()
        owners = self._owned()
        self._settled = {cpu: pods for cpu, pods in owners.items() if self._owners.get(cpu) == pods}
        self._owners = owners

    def double(self) -> Iterator[str]:
        """Yield a sentence for each CPU that two pods own, after a while without happenings."""
        for cpu, pods in self._owned().items():
            if len(pods) > 1:
                yield f"CPU {cpu} is of {sorted(pods)}"

    def _owned(self) -> dict[int, set[str]]:
        """Return the pods on each CPU that is owned."""
        found: defaultdict[int, set[str]] = defaultdict(set)
        for group, pod in self.pods.items():
            for cpu in self.cpus(group) - self.cpus(self.anybody):
                found[cpu].add(pod)
        return found

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
