"""Pure: errors of API requests, as one line for people and one word for programs."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Literal

from walras_api.contract import API_VERSION

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
"""Reason of a failed request, for programs and metrics."""

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
_UNACCEPTABLE = (
    "denied the request",  # by an admission webhook
    "etcdserver: request is too large",
    "trying to send message larger than max",  # to etcd
)
_TERMINATING = "because it is being terminated"  # what is to be created in a namespace
_UNOWNABLE = "cannot set an ownerRef on a resource you can't delete"
_SLASHES = 4  # in the path of all objects of one of our kinds
_VERBS = {"GET": "list", "POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}


class ApiError(Exception):
    """A failed request to the API server, with a one-line message: what, why, and the way out.

    Attributes:
        reason: Reason, for programs.
        retry_after: Seconds of the header ``Retry-After``; 0 without one.
    """

    def __init__(self, text: str, reason: Reason, retry_after: float = 0.0) -> None:
        super().__init__(" ".join(text.split()))
        self.reason = reason
        self.retry_after = retry_after

    @property
    def transient(self) -> bool:
        """Whether a retry of the same request is likely to succeed."""
        return self.reason in {"unreachable", "busy", "error"}


@contextlib.contextmanager
def explained(host: str, method: str, path: str) -> Iterator[None]:
    """Convert any exception of a request, or of reading its response, to an `ApiError`.

    Args:
        host: URL of the API server.
        method: HTTP method.
        path: Path of the request.

    Raises:
        ApiError: The body raised an exception.
    """
    # These take a third of a second, and commands that ask no cluster know this module, too.
    from kubernetes.client import ApiException
    from kubernetes.config import ConfigException
    from urllib3.exceptions import HTTPError

    try:
        yield
    except ApiException as error:
        if error.status:
            raise refusal(host, method, path, error.status, str(error.reason)) from error
        raise ApiError(f"{host}: is unreachable: {_root(error)}", "unreachable") from error
    except (HTTPError, OSError) as error:
        raise ApiError(f"{host}: is unreachable: {_root(error)}", "unreachable") from error
    except ConfigException as error:
        raise ApiError(f"{host}: {error}", "error") from error
    except (LookupError, TypeError, ValueError) as error:
        text = f"{host}: unexpected response, is this an API server? {method} {path}: {error!r}"
        raise ApiError(text, "error") from error


def refusal(
    host: str, method: str, path: str, status: int, said: str, wait: str | None = None
) -> ApiError:
    """Return the error for a response that is not 2xx.

    Args:
        host: URL of the API server.
        method: HTTP method.
        path: Path of the request.
        status: Status code of the response.
        said: Message of the API server.
        wait: Value of the header ``Retry-After``.
    """
    reason = _REASONS.get(status, "error")
    if reason == "forbidden" and _TERMINATING in said:
        reason = "missing"  # no permission would help: the namespace is as good as gone
    if status == 413 or (reason == "error" and any(each in said for each in _UNACCEPTABLE)):
        reason = "invalid"  # no repetition would help, whatever the status code
    way_out = _way_out(reason, "DELETE" if _UNOWNABLE in said else method, path)
    text = f"{host}: cannot {_VERBS[method]} {path}: {said}{way_out}"
    return ApiError(text, reason, float(wait) if wait and wait.isdecimal() else 0.0)


def said(status: int, data: bytes | None) -> str:
    """Return the message in the body of an error response."""
    try:
        return str(json.loads(data or b"")["message"])
    except (LookupError, TypeError, ValueError):
        return f"the response has status {status}"


def _way_out(reason: Reason, method: str, path: str) -> str:
    if reason == "forbidden":
        return f"; bind a role with the rule {_rule(method, path)} to this user"
    if reason == "unauthorized":
        return "; check that the user or ServiceAccount exists and that the token is current"
    ours = path.startswith(f"/apis/{API_VERSION}/")
    if reason == "missing" and ours and path.count("/") == _SLASHES:
        return "; install the CustomResourceDefinitions of Walras"
    return ""


def _rule(method: str, path: str) -> str:
    """Return the rule of a Role that allows a request, in one line of YAML."""
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
    """Return the message of the innermost exception, as the operating system words it."""
    while below := error.__cause__ or error.__context__:
        error = below
    return getattr(error, "strerror", None) or str(error) or repr(error)
