"""Facts: whether the bearer of a token may read a page, as the API server decides.

A page is authorized like those of the kubelet and of kube-rbac-proxy: a TokenReview tells whose
token it is, and a SubjectAccessReview whether that user may ``get`` the page's path as a
non-resource URL. Answers are kept for a short time, so that scrapes cost no requests.
"""

from __future__ import annotations

import hashlib
import threading
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from walras_service.api_errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable

    from walras_service.api import Api, Document

_KEPT = {HTTPStatus.OK: 60.0, HTTPStatus.FORBIDDEN: 10.0, HTTPStatus.UNAUTHORIZED: 10.0}
"""Seconds for which an answer is kept."""
_MOST = 1024  # answers that are kept


class AccessReview:
    """Reviews requests for pages; safe for concurrent use.

    Args:
        api: Client of the API server, with the right to create TokenReviews and
            SubjectAccessReviews.
        clock: Returns seconds, monotonic.
    """

    def __init__(self, api: Api, clock: Callable[[], float] = time.monotonic) -> None:
        self._api, self._clock = api, clock
        self._kept: dict[tuple[str, str], tuple[HTTPStatus, float]] = {}
        self._lock = threading.Lock()  # one request at a time: nobody can flood the API server

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
            status, until = self._kept.get(key, (HTTPStatus.OK, 0.0))
            if until > self._clock():
                return status
            try:
                status = self._review(token, path)
            except ApiError:
                return HTTPStatus.SERVICE_UNAVAILABLE
            if len(self._kept) >= _MOST:
                self._kept.clear()
            self._kept[key] = status, self._clock() + _KEPT[status]
            return status

    def _review(self, token: str, path: str) -> HTTPStatus:
        found = self._created("authentication", "TokenReview", {"token": token})
        if not found.get("authenticated"):
            return HTTPStatus.UNAUTHORIZED
        user: dict[str, Any] = found.get("user") or {}
        asked = {
            "user": user.get("username", ""),
            "uid": user.get("uid", ""),
            "groups": user.get("groups", []),
            "extra": user.get("extra", {}),
            "nonResourceAttributes": {"path": path, "verb": "get"},
        }
        found = self._created("authorization", "SubjectAccessReview", asked)
        return HTTPStatus.OK if found.get("allowed") else HTTPStatus.FORBIDDEN

    def _created(self, group: str, kind: str, spec: Document) -> Document:
        """Create a review, and return its status."""
        version = f"{group}.k8s.io/v1"
        path = f"/apis/{version}/{kind.lower()}s"
        document = {"apiVersion": version, "kind": kind, "spec": spec}
        return self._api.request("POST", path, document).get("status") or {}
