"""Effects: write an object with repetitions, and log what could not be written.

Transient failures are retried a few times, and permanent ones logged after each decision.
"""

from __future__ import annotations

import logging
import random
import time
from typing import TYPE_CHECKING, Literal

from walras_service.api_errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)

_PAUSES = (0.2, 0.5, 1.0, 2.0)
_LONGEST_PAUSE = 5.0
_LOGGED = 5  # most problems of one decision that are logged one by one

Result = Literal[
    "written", "gone", "failed", "unheld", "superseded", "dropped", "refused", "deferred"
]
"""How a write ended: `unheld` if this operator no longer leads, `superseded` if a plan of a later
leader was found, `dropped` if the rate limit was exceeded, `refused` if a pod could not be placed,
or the API server does not accept what concerns one user, `deferred` if it was left to the next
decision."""

_REFUSALS = frozenset({"forbidden", "invalid", "conflict"})
"""Reasons of permanent failures that may be about a single object: a quota, an admission policy, a
status that is too large, or an object that somebody else changes all the time."""


class SupersededError(Exception):
    """A later leader has published a plan, or the Market has changed since the decision."""


class Attempts:
    """The attempts of one decision after the other; safe for concurrent use.

    Args:
        leads: Returns whether this operator leads and is not ending; called before each attempt.
    """

    def __init__(self, leads: Callable[[], bool]) -> None:
        self._leads = leads
        self._problems: list[str] = []  # of the current decision
        self._superseded: list[str] = []

    def tried(self, title: str, write: Callable[[], object], *, of_user: bool = False) -> Result:
        """Write an object, with repetitions; return how that ended.

        Args:
            title: Name of what is written, for the log.
            write: Writes it.
            of_user: Whether it is one user's, who can have it ``refused`` rather than ``failed``,
                and ``deferred`` rather than ``superseded``.
        """
        for pause in (*_PAUSES, None):
            if not self._leads():
                return "unheld"
            try:
                write()
            except ApiError as error:
                if error.reason in {"missing", "expired"}:
                    return "gone"
                if pause is None or not (error.transient or error.reason == "conflict"):
                    self._problems.append(f"{title}: {error}")
                    return "refused" if of_user and error.reason in _REFUSALS else "failed"
                wait = min(max(pause, error.retry_after), _LONGEST_PAUSE)
                time.sleep(wait * random.uniform(0.5, 1.0))  # noqa: S311 - nothing secret about it
            except SupersededError as error:
                self._superseded.append(f"{title}: {error}; it is decided again")
                return "deferred" if of_user else "superseded"
            else:
                return "written"
        raise RuntimeError("the last pause is None")

    def log_problems(self) -> None:
        """Log what was not written; objects that others have changed are no error."""
        for level, problems, event in (
            (logging.ERROR, self._problems, "publish-failed"),
            (logging.INFO, self._superseded, "superseded"),
        ):
            for problem in problems[:_LOGGED]:
                _log.log(level, "not published: %s", problem, extra={"event": event})
            if len(problems) > _LOGGED:
                _log.log(level, "not published: %d others", len(problems) - _LOGGED)
            problems.clear()
