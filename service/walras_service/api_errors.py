"""Facts: why the API server did not do what was asked: a line for people, a word for programs."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Literal

from kubernetes.client import ApiException
from kubernetes.config import ConfigException
from urllib3.exceptions import HTTPError

from walras.resources.contract import API_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator

Reason = Literal[
    "unreachable",
    "unauthorized",
    "forbidden",
    "missing",
    "conflict",
    "expired",
    "unsupported",
    "invalid",
    "busy",
    "error",
]
"""Why something did not happen, for programs and metrics."""

_REASONS: dict[int, Reason] = {
    401: "unauthorized",
    403: "forbidden",
    404: "missing",
    409: "conflict",
    410: "expired",
    415: "unsupported",
    422: "invalid",
    429: "busy",
}
_KIND_ITSELF = 4  # slashes in the path of all objects of a kind
_VERBS = {"GET": "list", "POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}


class ApiError(Exception):
    """What was asked of the API server did not happen; one line: what, why, and the way out.

    Attributes:
        reason: In a word.
        retry_after: Seconds for which the server wants to be left alone; 0 if it did not say.
    """

    def __init__(self, text: str, reason: Reason, retry_after: float = 0.0) -> None:
        super().__init__(" ".join(text.split()))
        self.reason = reason
        self.retry_after = retry_after

    @property
    def transient(self) -> bool:
        """Whether the same request may well succeed in a moment."""
        return self.reason in {"unreachable", "busy", "error"}


@contextlib.contextmanager
def explained(host: str, method: str, path: str) -> Iterator[None]:
    """Turn whatever a request raises, and what is not understood of its answer, into a line.

    Args:
        host: Of the API server.
        method: Of the request.
        path: Of the request.

    Raises:
        ApiError: In the place of what was raised.
    """
    try:
        yield
    except ApiException as error:
        if error.status:
            raise refusal(host, method, path, error.status, str(error.reason)) from error
        raise ApiError(f"{host}: cannot be reached: {_root(error)}", "unreachable") from error
    except (HTTPError, OSError) as error:
        raise ApiError(f"{host}: cannot be reached: {_root(error)}", "unreachable") from error
    except ConfigException as error:
        raise ApiError(f"{host}: {error}", "error") from error
    except (LookupError, TypeError, ValueError) as error:
        text = f"{host}: may not be an API server: {method} {path}: {error!r}"
        raise ApiError(text, "error") from error


def refusal(
    host: str, method: str, path: str, status: int, said: str, wait: str | None = None
) -> ApiError:
    """What to raise for an answer that is not 2xx.

    Args:
        host: Of the API server.
        method: Of the request.
        path: Of the request.
        status: Of the answer.
        said: By the API server.
        wait: Its header ``Retry-After``.
    """
    reason = _REASONS.get(status, "error")
    text = f"{host}: cannot {_VERBS[method]} {path}: {said}{_way_out(reason, method, path)}"
    return ApiError(text, reason, float(wait) if wait and wait.isdecimal() else 0.0)


def said(status: int, data: bytes | None) -> str:
    """What the API server says, without what surrounds it."""
    try:
        return str(json.loads(data or b"")["message"])
    except (LookupError, TypeError, ValueError):
        return f"it answers with {status}"


def _way_out(reason: Reason, method: str, path: str) -> str:
    if reason == "forbidden":
        return f"; bind a role to whom it says, with the rule {_rule(method, path)}"
    if reason == "unauthorized":
        return "; is there still such a user or ServiceAccount, and is the token the present one?"
    ours = path.startswith(f"/apis/{API_VERSION}/")
    if reason == "missing" and ours and path.count("/") == _KIND_ITSELF:
        return "; install Walras's CustomResourceDefinitions"
    return ""


def _rule(method: str, path: str) -> str:
    """The rule of a Role that allows a request, as YAML has it on one line."""
    parts = path.strip("/").split("/")
    group = parts[1] if parts[0] == "apis" else ""
    rest = parts[3:] if parts[0] == "apis" else parts[2:]
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    resource = f"{rest[0]}/{rest[2]}" if len(rest) > 2 else rest[0]
    verb = "get" if method == "GET" and len(rest) > 1 else _VERBS[method]
    verbs = "list, watch" if verb == "list" else verb
    return f'{{apiGroups: ["{group}"], resources: [{resource}], verbs: [{verbs}]}}'


def _root(error: BaseException) -> str:
    """What was at the bottom of it, as the operating system calls it."""
    while below := error.__cause__ or error.__context__:
        error = below
    return getattr(error, "strerror", None) or str(error) or repr(error)
