"""Facts: whether the bearer of a token may read a page, as the API server decides.

A page is authorized like those of the kubelet and of kube-rbac-proxy: a TokenReview tells whose
token it is, and a SubjectAccessReview whether that user may ``get`` the page's path as a
non-resource URL. Answers are kept for a short time, so that scrapes cost no requests. Whoever
guesses tokens neither floods the API server, since few unknown tokens are reviewed at a time, nor
holds up those who have been allowed before, who wait for nobody.
"""

from __future__ import annotations

import hashlib
import threading
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple

from walras_service.api_errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable

    from walras_service.api import Api, Document

_KEPT = {HTTPStatus.OK: 60.0, HTTPStatus.FORBIDDEN: 10.0, HTTPStatus.UNAUTHORIZED: 10.0}
"""Seconds for which an answer is kept."""
_RENEWAL = 10.0  # seconds for which an answer is used beyond that, while a new one is asked for
_MOST = 1024  # tokens and paths of which the answer is kept, of those allowed and of the others
_AT_ONCE = 4  # most reviews at a time of tokens that have not been allowed before
_LEAST = 0.1  # seconds that a refusal takes, so that guessing costs 40 reviews a second at most
_PATIENCE = 5.0  # seconds until a request that waits for its review is given up


class _Kept(NamedTuple):
    """An answer, and until when it holds."""

    status: HTTPStatus
    until: float


_Key = tuple[str, str]  # hash of a token, and path of a page


class AccessReview:
    """Reviews requests for pages; safe for concurrent use.

    Args:
        api: Client of the API server, with the right to create TokenReviews and
            SubjectAccessReviews.
        clock: Returns seconds, monotonic.
    """

    def __init__(self, api: Api, clock: Callable[[], float] = time.monotonic) -> None:
        self._api, self._clock = api, clock
        self._allowed: dict[_Key, _Kept] = {}  # those who guess do not fill it
        self._refused: dict[_Key, _Kept] = {}
        self._lock = threading.Lock()  # of both; never held during a request
        self._places = threading.BoundedSemaphore(_AT_ONCE)

    def __call__(self, authorization: str, path: str) -> HTTPStatus:
        """Return 200 if a request is allowed, else 401, 403, or 503 if nobody can tell.

        Args:
            authorization: Value of the request's header ``Authorization``; empty for none.
            path: Path of the page.
        """
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token:
            return HTTPStatus.UNAUTHORIZED
        key = hashlib.sha256(token.encode(errors="replace")).hexdigest(), path
        with self._lock:
            now, before = self._clock(), self._allowed.get(key)
            kept = before or self._refused.get(key)
            if kept is not None and kept.until > now:
                return kept.status
            if before is not None:  # others use the old answer while this one asks anew
                self._allowed[key] = _Kept(HTTPStatus.OK, now + _RENEWAL)
        if before is not None:
            return self._asked(key, token)
        if not self._places.acquire(timeout=_PATIENCE):
            return HTTPStatus.SERVICE_UNAVAILABLE
        try:
            status = self._asked(key, token)
            if status != HTTPStatus.OK:
                time.sleep(_LEAST)
            return status
        finally:
            self._places.release()

    def _asked(self, key: _Key, token: str) -> HTTPStatus:
        """Return the API server's answer, and keep it; 503 if there is none."""
        try:
            status = self._review(token, key[1])
        except ApiError:
            status = HTTPStatus.SERVICE_UNAVAILABLE
        kept = _Kept(status, self._clock() + _KEPT.get(status, 0.0))
        with self._lock:
            if status == HTTPStatus.OK:
                _keep(self._allowed, key, kept)
            elif status in _KEPT:
                self._allowed.pop(key, None)
                _keep(self._refused, key, kept)
            elif key in self._allowed:  # nobody can tell: the next request asks again
                self._allowed[key] = kept
        return status

    def _review(self, token: str, path: str) -> HTTPStatus:
        review = self._created("authentication", "TokenReview", {"token": token})
        if not review.get("authenticated"):
            return HTTPStatus.UNAUTHORIZED
        user: dict[str, Any] = review.get("user") or {}
        asked = {
            "user": user.get("username", ""),
            "uid": user.get("uid", ""),
            "groups": user.get("groups", []),
            "extra": user.get("extra", {}),
            "nonResourceAttributes": {"path": path, "verb": "get"},
        }
        review = self._created("authorization", "SubjectAccessReview", asked)
        return HTTPStatus.OK if review.get("allowed") else HTTPStatus.FORBIDDEN

    def _created(self, group: str, kind: str, spec: Document) -> Document:
        """Create a review, and return its status."""
        version = f"{group}.k8s.io/v1"
        path = f"/apis/{version}/{kind.lower()}s"
        document = {"apiVersion": version, "kind": kind, "spec": spec}
        return self._api.request("POST", path, document).get("status") or {}


def _keep(answers: dict[_Key, _Kept], key: _Key, kept: _Kept) -> None:
    """Keep an answer as the newest, without the oldest if there are too many."""
    answers.pop(key, None)
    if len(answers) >= _MOST:
        del answers[next(iter(answers))]
    answers[key] = kept
