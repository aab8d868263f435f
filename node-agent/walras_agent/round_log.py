"""Pure: what a round of the agent has written, and which cgroups are not as the plan says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from walras_agent.backoff import BACKING_OFF

if TYPE_CHECKING:
    from collections.abc import Collection

    from walras_agent.tree import CgroupError, FileWrite


@dataclass(frozen=True, slots=True)
class GroupFailure:
    """A cgroup whose CPUs, quota, weight or memory are not enforced.

    Attributes:
        group: Path of the cgroup.
        kind: `CgroupError.kind`; ``unreadable`` for a container that stays where it is until it can
            be read; or ``stuck`` if the cgroup only waits.
        reason: Message in one line.
    """

    group: str
    kind: Literal["gone", "transient", "permanent", "unreadable", "stuck"]
    reason: str


def backing_off(group: str) -> GroupFailure:
    """Return the failure of a cgroup that must not be written yet, since the last write failed."""
    return GroupFailure(group, "stuck", f"{group}: {BACKING_OFF}")


@dataclass(frozen=True, slots=True)
class RoundLog:
    """The writes and failures of one round so far.

    Attributes:
        fixed: Cgroups that must not be written in this round.
        writes: Writes that were made, in order.
        failed: The first failure of each cgroup that has one.
        overwritten: Pods whose quota or weight others had changed, and that were written again.
    """

    fixed: Collection[str] = ()
    writes: list[FileWrite] = field(default_factory=list)
    failed: dict[str, GroupFailure] = field(default_factory=dict)
    overwritten: set[str] = field(default_factory=set)

    @property
    def staying(self) -> set[str]:
        """Cgroups that are written no more."""
        return {*self.fixed, *self.failed}

    def note(self, group: str, error: CgroupError) -> None:
        """Add a write error to the failures, unless the group was deleted, which is normal."""
        if error.kind != "gone":
            self.failed.setdefault(group, GroupFailure(group, error.kind, str(error)))

    def back_off(self, group: str) -> None:
        """Add a fixed cgroup, which would have to be written, to the failures."""
        self.failed.setdefault(group, backing_off(group))
