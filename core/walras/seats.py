"""Processors that pairs of waiting jobs can be sent to, and which of them have room for whom.

A node has a processor to spare for every socket that the jobs on it, two a socket, do not fill; a
job that wants one to itself fills it. Room only shrinks while jobs are seated, so what once did
not fit a processor never will: each kind of pair goes through the list once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from walras.snapshot import Job, Node, Placing

Shape = tuple["Placing | tuple[Placing, str, str]", ...]
"""What tells jobs apart as far as seats go: what they ask, and who they are where that matters."""


class Seats:
    """Free processors, those of the emptiest nodes first.

    Args:
        jobs: that have a node.
        nodes: that sell cores.
        told_apart: whether anybody avoids anybody, so that it matters who sits where.

    Attributes:
        processors: the node of each that is free to begin with.
        free: how many still are.
    """

    def __init__(self, jobs: Iterable[Job], nodes: Sequence[Node], *, told_apart: bool) -> None:
        open_ = [node for node in nodes if node.cores > 0]
        self._room = {node.name: None if node.room is None else dict(node.room) for node in open_}
        self._company: dict[str, list[Job]] = {node.name: [] for node in open_}
        self._told_apart = told_apart
        for job in jobs:
            if job.node in self._company:
                self._company[job.node].append(job)
        self.processors = self._spare(open_)
        self.free = len(self.processors)
        self._next = list(range(len(self.processors) + 1))
        self._tried: dict[Shape, int] = {}

    def _spare(self, nodes: Sequence[Node]) -> list[str]:
        free = []
        for number, node in enumerate(nodes):
            there = self._company[node.name]
            alone = sum(job.placing.apart for job in there)
            filled = alone + -(-(len(there) - alone) // 2)
            free += [(taken, number, node.name) for taken in range(filled, node.sockets)]
        return [name for _, _, name in sorted(free)]

    def take(self, jobs: Sequence[Job]) -> str | None:
        """Seat one or two jobs on the first free processor that has room for all; its node.

        Returns:
            None if there is none; all is then as it was.
        """
        shape = tuple(map(self._shape, jobs))
        number = self._free(self._tried.get(shape, 0))
        while number < len(self.processors) and not self._fits(jobs, self.processors[number]):
            number = self._free(number + 1)
        self._tried[shape] = number
        if number == len(self.processors):
            return None
        self._next[number] = number + 1
        self.free -= 1
        self._sit(jobs, self.processors[number])
        return self.processors[number]

    def join(self, job: Job, node: str) -> bool:
        """Seat a job beside its partner, who is on a node already; whether there is room."""
        if node not in self._company or not self._fits((job,), node):
            return False
        self._sit((job,), node)
        return True

    def has_room(self, job: Job) -> bool:
        """Whether any free processor has room for a job by itself."""
        return any(self._fits((job,), node) for node in dict.fromkeys(self.processors))

    def _shape(self, job: Job) -> Placing | tuple[Placing, str, str]:
        return (job.placing, job.namespace, job.name) if self._told_apart else job.placing

    def _free(self, number: int) -> int:
        """Return the first processor from one on that is not taken; paths are shortened."""
        path = []
        while self._next[number] != number:
            path.append(number)
            number = self._next[number]
        for each in path:
            self._next[each] = number
        return number

    def _fits(self, jobs: Sequence[Job], node: str) -> bool:
        if any(job.placing.nodes is not None and node not in job.placing.nodes for job in jobs):
            return False
        room = self._room[node]
        if room is not None:
            needs = total(job.placing.needs for job in jobs)
            if any(room.get(resource, 0) < amount for resource, amount in needs.items()):
                return False
        return not self._told_apart or not any(
            avoid(job, other) for job in jobs for other in self._company[node]
        )

    def _sit(self, jobs: Sequence[Job], node: str) -> None:
        room = self._room[node]
        if room is not None:
            for resource, amount in total(job.placing.needs for job in jobs).items():
                room[resource] = room.get(resource, 0) - amount
        self._company[node] += jobs


def total(needs: Iterable[Sequence[tuple[str, int]]]) -> Mapping[str, int]:
    """Add up what several jobs need, by resource."""
    found: dict[str, int] = {}
    for each in needs:
        for resource, amount in each:
            found[resource] = found.get(resource, 0) + amount
    return found


def avoid(one: Job, other: Job) -> bool:
    """Say whether either of two jobs avoids the other."""
    return _avoids(one, other) or _avoids(other, one)


def _avoids(one: Job, other: Job) -> bool:
    shunned = one.placing.avoids
    return bool(shunned) and not shunned.isdisjoint(
        {(other.namespace, other.name), (other.namespace, "")}
    )
