"""Facts: all objects of a kind, in pages, as they are in the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from walras_service.api import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from walras_service.api import Api, Document, Query

_PAGE = 250


def everything(
    api: Api, path: str, selectors: Mapping[str, str] | None = None
) -> Iterator[Document]:
    """All objects at a path.

    Args:
        api: To the API server.
        path: Of all objects of a kind, maybe of a namespace.
        selectors: ``labelSelector``, ``fieldSelector``.

    Raises:
        ApiError: They cannot be listed.
    """
    more = ""
    while True:
        query: Query = {**(selectors or {}), "limit": _PAGE, "continue": more}
        page = api.request("GET", path, query=query, timeout=6 * PATIENCE)
        yield from page["items"] or ()
        more = page["metadata"].get("continue", "")
        if not more:
            return
