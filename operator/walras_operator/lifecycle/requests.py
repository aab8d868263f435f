"""Effects: requests to the API server that retry transient errors, and lists in pages."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from walras_service.api import PATIENCE
from walras_service.api_errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from walras_service.api import Api, Document, Query

Result = TypeVar("Result")

_PAGE = 250  # objects
_PAUSE = 1.0  # seconds between two attempts


def retry_transient(until: float, ask: Callable[[], Result], echo: Callable[[str], None]) -> Result:
    """Call a function until it succeeds, and return its result.

    Args:
        until: When to give up, by `time.monotonic`.
        ask: Function to call; it must be idempotent.
        echo: Prints a line about each transient error.

    Raises:
        ApiError: The first permanent error, or the last transient one.
    """
    while True:
        try:
            return ask()
        except ApiError as error:
            if not error.transient or time.monotonic() >= until:
                raise
            echo(f"retrying: {error}")
            time.sleep(max(_PAUSE, error.retry_after))


def list_all(api: Api, path: str, selectors: Mapping[str, str] | None = None) -> Iterator[Document]:
    """Yield all objects at a path, page by page.

    Args:
        api: Connection to the API server.
        path: Path of a collection.
        selectors: Query parameters ``labelSelector`` and ``fieldSelector``.

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
