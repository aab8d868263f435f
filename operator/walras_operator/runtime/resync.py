"""Facts: compare the mirror with lists of names and UIDs from the API server.

Kopf (1.45) reports the objects that it sees. When a watch expires (410 Gone), it lists again but
does not report objects that were deleted meanwhile; nor does it report the end of a list. The
operator therefore compares: at the start, to know when the mirror is complete, and periodically, to
drop deleted objects and to notice watches that have gone silent.

A list is never older than an object that was read or written before it, unless etcd was restored
from a snapshot. Objects in the mirror may then be newer than those of the API server, and would
outlive all their later versions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from walras_operator.runtime.kinds import Watched
    from walras_operator.runtime.mirror import Mirror
    from walras_service.api import Api


@dataclass(slots=True)
class Resync:
    """Compares the mirror with the API server.

    Attributes:
        api: Connection to the API server.
        kinds: Kinds to compare, by name.
        mirror: Mirror of the cluster.
        restored: Whether the last comparison found that the API server's data are older than the
            mirror, because etcd was restored from a snapshot. The watches must then begin anew.
    """

    api: Api
    kinds: Mapping[str, Watched]
    mirror: Mirror
    restored: bool = False
    _unheard: dict[str, set[str]] = field(default_factory=dict)

    def take(self) -> int:
        """List all names, and drop deleted objects from the mirror.

        Returns:
            Number of objects that existed at this and at the previous comparison and that no watch
            has reported.

        Raises:
            ApiError: A kind cannot be listed; the mirror is unchanged.
        """
        known = {kind: self.mirror.versions(kind) for kind in self.kinds}  # before, so not too new
        lists = {kind: self._list(watched) for kind, watched in self.kinds.items()}
        self.restored = any(
            0 < version < _newest(known[kind].values()) for kind, (_, version) in lists.items()
        )
        if self.restored:
            self.mirror.forget_versions()
        before, self._unheard = self._unheard, {}
        for kind, (uids, _) in lists.items():
            if gone := known[kind].keys() - uids:
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

    def _list(self, watched: Watched) -> tuple[set[str], int]:
        """Return the UIDs of all objects of a kind, and the version of the list."""
        uids: set[str] = set()
        version = 0
        for page in self.api.pages(watched.kind, watched.selectors):
            uids.update(item["metadata"]["uid"] for item in page["items"] or ())
            version = version or _newest([page["metadata"].get("resourceVersion", "")])
        return uids, version


def _newest(versions: Iterable[str]) -> int:
    """Return the highest resourceVersion; those of one kind are comparable (KEP-5504)."""
    return max((int(each) for each in versions if each.isdecimal()), default=0)
