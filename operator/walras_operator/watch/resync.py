"""Facts: compare what Kopf reported with lists of names and UIDs from the API server.

Kopf (1.45) reports the objects that it sees. When a watch expires (410 Gone), it lists again but
does not report objects that were deleted meanwhile; nor does it report the end of a list. The
operator therefore compares: at the start, to know when the mirror is complete, and periodically, to
drop deleted objects and to notice watches that have gone silent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walras_operator.watch.kinds import Watched
    from walras_operator.watch.mirror import Mirror
    from walras_service.api import Api


@dataclass(slots=True)
class Resync:
    """Compares the mirror with the API server.

    Attributes:
        api: Connection to the API server.
        kinds: Kinds to compare, by name.
        mirror: Mirror of the cluster.
    """

    api: Api
    kinds: Mapping[str, Watched]
    mirror: Mirror
    _unheard: dict[str, set[str]] = field(default_factory=dict)

    def take(self) -> int:
        """List all names, and drop deleted objects from the mirror.

        Returns:
            Number of objects that existed at this and at the previous comparison and that no watch
            has reported.

        Raises:
            ApiError: A kind cannot be listed; the mirror is unchanged.
        """
        # Listed before, so that an object that is created meanwhile does not seem to be deleted.
        known = {kind: self.mirror.versions(kind).keys() for kind in self.kinds}
        found = {kind: self._list(watched) for kind, watched in self.kinds.items()}
        before, self._unheard = self._unheard, {}
        for kind, uids in found.items():
            if gone := known[kind] - uids:
                self.mirror.forget(kind, gone)
            self._unheard[kind] = uids - self._heard(kind)
        return sum(len(uids & before.get(kind, set())) for kind, uids in self._unheard.items())

    def missing(self) -> int:
        """Return how many objects of the last comparison no watch has reported yet."""
        for kind, uids in self._unheard.items():
            uids.difference_update(self._heard(kind))
        return sum(map(len, self._unheard.values()))

    def heard(self, kind: str, uid: str) -> None:
        """Note that a watch has reported an object, which may have been deleted since."""
        self._unheard.get(kind, set()).discard(uid)

    def _heard(self, kind: str) -> set[str]:
        return {uid for uid, version in self.mirror.versions(kind).items() if version}

    def _list(self, watched: Watched) -> set[str]:
        """Return the UIDs of all objects of a kind."""
        pages = self.api.pages(watched.kind, watched.selectors)
        return {item["metadata"]["uid"] for page in pages for item in page["items"] or ()}
