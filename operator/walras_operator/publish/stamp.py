"""Pure: the identity of a decision, and the versions of objects on which its writes depend."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from walras_operator.decide.world import Reference
    from walras_service.api import Document


@dataclass(frozen=True, slots=True)
class Stamp:
    """The identity of a decision: its number, time and author.

    Attributes:
        epoch: Number of the decision.
        time: When it was made (RFC 3339).
        milliseconds: Time that it took.
        leader: Identity of the operator that made it.
        versions: The resourceVersions of the objects that it was made from, by UID, and of those
            that it has written since; objects that it has created by title. An operator that has
            stood still for longer than its Lease, and is no leader any more, must not write what it
            knew of credits, runs and measurements.
    """

    epoch: int
    time: str
    milliseconds: int
    leader: str
    versions: dict[str, str] = field(default_factory=dict)

    def version_of(self, object_: Reference) -> str | None:
        """Return the version on which a write of an object depends; None if it is not known."""
        return self.versions.get(object_.uid or object_.title)

    def wrote(self, object_: Reference, answer: Document) -> None:
        """Note that the object is as this decision has it."""
        self.versions[object_.uid or object_.title] = answer["metadata"]["resourceVersion"]
