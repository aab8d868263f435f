"""Facts: who is there, by lists of names and UIDs that are compared with what the watches told.

Kopf (1.45) tells of what it sees. After a watch has to begin anew (410 Gone) it lists the objects
that are there, and says nothing of those that have gone meanwhile; nor does it say when a list has
ended. So the operator takes a census: at the start, to know when the mirror is complete; and from
time to time, to drop what is gone and to notice a watch that has fallen silent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walras_operator.runtime.kinds import Watched
    from walras_operator.runtime.mirror import Mirror
    from walras_service.api import Api


@dataclass(slots=True)
class Census:
    """Compares the mirror with the API server.

    Attributes:
        api: To ask.
        kinds: Of which objects, by name.
        mirror: That is to have them.
    """

    api: Api
    kinds: Mapping[str, Watched]
    mirror: Mirror
    _unheard: dict[str, set[str]] = field(default_factory=dict)

    def take(self) -> int:
        """Ask for all names, and drop from the mirror what is gone.

        Returns:
            How many objects are there, were there at the last census, and are still unheard of.

        Raises:
            ApiError: A kind cannot be listed; the mirror is as it was.
        """
        known = {kind: self.mirror.uids(kind) for kind in self.kinds}  # before, so not too new
        there = {
            kind: {each["uid"] for each in self.api.names(watched.kind, watched.selectors)}
            for kind, watched in self.kinds.items()
        }
        before, self._unheard = self._unheard, {}
        for kind, uids in there.items():
            if gone := known[kind] - uids:
                self.mirror.forget(kind, gone)
            self._unheard[kind] = uids - known[kind]
        self.missing()
        return sum(len(uids & before.get(kind, set())) for kind, uids in self._unheard.items())

    def missing(self) -> int:
        """How many of those that were there has no watch told of yet."""
        for kind, uids in self._unheard.items():
            uids.difference_update(self.mirror.uids(kind))
        return sum(map(len, self._unheard.values()))

    def heard(self, kind: str, uid: str) -> None:
        """An object was seen, and may be gone again."""
        self._unheard.get(kind, set()).discard(uid)
