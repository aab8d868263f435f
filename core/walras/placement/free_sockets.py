"""Free sockets of nodes, and which of them have room for which waiting jobs.

A socket takes two jobs, or one that needs a socket to itself. A node's free sockets are those that
the jobs on it do not occupy. Room only shrinks while jobs are placed, so a socket that once did
not fit a kind of pair never will: each kind goes through the list once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from walras.market.snapshot import Job, Node, PlacementConstraints

Shape = tuple["PlacementConstraints | tuple[PlacementConstraints, str, str]", ...]
"""Constraints of one or two jobs, with their names if jobs avoid each other by name."""


class FreeSockets:
    """Free sockets, those of the emptiest nodes first.

    Args:
        jobs: Jobs that have a node.
        nodes: Nodes of the snapshot; those without cores for sale are left out.
        any_avoids: Whether any job avoids another, so that names matter.

    Attributes:
        node_of: Name of the node of each socket that is free at first.
        free: Number of sockets that are still free.
    """

    def __init__(self, jobs: Iterable[Job], nodes: Sequence[Node], *, any_avoids: bool) -> None:
        open_ = [node for node in nodes if node.cores > 0]
        self._room = {node.name: None if node.room is None else dict(node.room) for node in open_}
        self._jobs_on: dict[str, list[Job]] = {node.name: [] for node in open_}
        self._any_avoids = any_avoids
        for job in jobs:
            if job.node in self._jobs_on:
                self._jobs_on[job.node].append(job)
        self.node_of = self._free_sockets(open_)
        self.free = len(self.node_of)
        self._next = list(range(len(self.node_of) + 1))
        self._tried: dict[Shape, int] = {}

    def _free_sockets(self, nodes: Sequence[Node]) -> list[str]:
        free = []
        for number, node in enumerate(nodes):
            filled = self._filled(node.name)
            free += [(taken, number, node.name) for taken in range(filled, node.sockets)]
        return [name for _, _, name in sorted(free)]

    def _filled(self, node: str) -> int:
        """Return how many sockets of a node the jobs on it fill."""
        there = self._jobs_on[node]
        alone = sum(job.placement.exclusive for job in there)
        return alone + -(-(len(there) - alone) // 2)

    def place(self, jobs: Sequence[Job]) -> str | None:
        """Place one or two jobs on the first free socket that has room for all of them.

        Returns:
            Name of the socket's node; None if no socket has room, and nothing is changed.
        """
        shape = tuple(map(self._shape, jobs))
        number = self._next_free(self._tried.get(shape, 0))
        while number < len(self.node_of) and not self._fits(jobs, self.node_of[number]):
            number = self._next_free(number + 1)
        self._tried[shape] = number
        if number == len(self.node_of):
            return None
        self._take(number)
        self._occupy(jobs, self.node_of[number])
        return self.node_of[number]

    def place_beside_partner(self, job: Job, node: str) -> bool:
        """Place a job beside its partner, which has a node; return whether there is room.

        Where the partner shares its socket with another job already, the two take a free one.
        """
        if node not in self._jobs_on or not self._fits((job,), node):
            return False
        filled = self._filled(node)
        self._occupy((job,), node)
        if self._filled(node) > filled:
            free = (number for number in self._free_numbers() if self.node_of[number] == node)
            first = next(free, None)
            if first is not None:
                self._take(first)
        return True

    def has_room(self, job: Job) -> bool:
        """Return whether any free socket has room for a job alone."""
        nodes = dict.fromkeys(self.node_of[number] for number in self._free_numbers())
        return any(self._fits((job,), node) for node in nodes)

    def _free_numbers(self) -> Iterator[int]:
        """Yield the numbers of sockets that are still free."""
        return (number for number in range(len(self.node_of)) if self._next[number] == number)

    def _take(self, number: int) -> None:
        self._next[number] = number + 1
        self.free -= 1

    def _shape(self, job: Job) -> PlacementConstraints | tuple[PlacementConstraints, str, str]:
        return (job.placement, job.namespace, job.name) if self._any_avoids else job.placement

    def _next_free(self, number: int) -> int:
        """Return the first free socket at or after ``number``, and shorten the paths to it."""
        path = []
        while self._next[number] != number:
            path.append(number)
            number = self._next[number]
        for each in path:
            self._next[each] = number
        return number

    def _fits(self, jobs: Sequence[Job], node: str) -> bool:
        if any(job.placement.nodes is not None and node not in job.placement.nodes for job in jobs):
            return False
        room = self._room[node]
        if room is not None:
            requests = total(job.placement.requests for job in jobs)
            if any(room.get(resource, 0) < amount for resource, amount in requests.items()):
                return False
        return not self._any_avoids or not any(
            avoid(job, other) for job in jobs for other in self._jobs_on[node]
        )

    def _occupy(self, jobs: Sequence[Job], node: str) -> None:
        room = self._room[node]
        if room is not None:
            for resource, amount in total(job.placement.requests for job in jobs).items():
                room[resource] = room.get(resource, 0) - amount
        self._jobs_on[node] += jobs


def total(requests: Iterable[Sequence[tuple[str, int]]]) -> Mapping[str, int]:
    """Return the sum of the requests of several jobs, by resource."""
    sums: dict[str, int] = {}
    for each in requests:
        for resource, amount in each:
            sums[resource] = sums.get(resource, 0) + amount
    return sums


def avoid(one: Job, other: Job) -> bool:
    """Return whether either of two jobs avoids the other."""
    return _avoids(one, other) or _avoids(other, one)


def _avoids(one: Job, other: Job) -> bool:
    avoided = one.placement.avoids
    return bool(avoided) and not avoided.isdisjoint(
        {(other.namespace, other.name), (other.namespace, "")}
    )
