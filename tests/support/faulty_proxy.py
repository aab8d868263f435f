"""A proxy of an API server that fails: late, refused, cut off, and answers that get lost.

It ends TLS and speaks to the API server as the administrator of a kubeconfig, whoever asks it.
"""

from __future__ import annotations

import random
import ssl
import threading
import time
from collections import Counter
from http.client import HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import yaml

from answering import Answering, body_of, send
from walras_service.api import settings

if TYPE_CHECKING:
    from http.server import BaseHTTPRequestHandler

    from kubernetes.client import Configuration

CERTIFICATE = Path(__file__).parents[1] / "service" / "certificates" / "first"

FAULTS = ("late", "busy", "broken", "expired", "not sent", "not answered", "cut off")
"""``not answered`` means that the request was carried out, and its sender never learns it."""


class FaultyProxy(Answering):
    """The proxy, which listens as soon as it is created.

    Args:
        kubeconfig: Administrator's kubeconfig of the API server.
        seed: Seed of the random faults.

    Attributes:
        rate: Part of the requests that fail.
        failed: Number of requests that failed, by fault.
    """

    def __init__(self, kubeconfig: str, seed: int) -> None:
        self.rate = 0.0
        self.failed: Counter[str] = Counter()
        self._server = settings(kubeconfig)
        token = self._server.auth_settings().get("BearerToken", {}).get("value")
        self._credentials = {"Authorization": str(token)} if token else {}
        self._lots, self._lock = random.Random(seed), threading.Lock()
        super().__init__(CERTIFICATE)

    def kubeconfig(self, folder: Path) -> str:
        """Write a kubeconfig of the proxy; return its path."""
        cluster = {"server": self.url, "certificate-authority": str(CERTIFICATE / "tls.crt")}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "faulty", "cluster": cluster}],
            "users": [{"name": "anybody", "user": {}}],
            "contexts": [{"name": "faulty", "context": {"cluster": "faulty", "user": "anybody"}}],
            "current-context": "faulty",
        }
        path = folder / "faulty.yaml"
        path.write_text(yaml.safe_dump(document))
        return str(path)

    def respond(self, request: BaseHTTPRequestHandler) -> None:
        """Carry a request out, unless it is to fail."""
        body = body_of(request)
        fault = self._drawn()
        if fault == "late":
            time.sleep(self._lots.uniform(0.1, 2))
        elif fault in {"busy", "broken", "expired"}:
            self._refuse(request, {"busy": 429, "broken": 500, "expired": 410}[fault])
            return
        elif fault == "not sent":
            request.close_connection = True
            return
        connection = connect(self._server)
        try:
            headers = {
                name: value
                for name, value in request.headers.items()
                if name.lower() not in {"host", "connection", "accept-encoding"}
            }
            headers |= self._credentials
            connection.request(request.command, request.path, body or None, headers)
            answer = connection.getresponse()
            if fault == "not answered":
                answer.read()
                request.close_connection = True
                return
            self._pass_on(request, answer, cut=fault == "cut off")
        except (OSError, HTTPException):
            request.close_connection = True
        finally:
            connection.close()

    def _drawn(self) -> str:
        with self._lock:
            fault = self._lots.choice(FAULTS) if self._lots.random() < self.rate else ""
            if fault:
                self.failed[fault] += 1
            return fault

    def _refuse(self, request: BaseHTTPRequestHandler, code: int) -> None:
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}
        send(request, code, {**status, "message": "told to fail", "reason": "Expired"})

    def _pass_on(self, request: BaseHTTPRequestHandler, answer: HTTPResponse, *, cut: bool) -> None:
        """Pass an answer on piece by piece, as a watch needs it; perhaps not to its end."""
        left = self._lots.randint(0, 2000) if cut else None
        request.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() in {"content-type", "retry-after"}:
                request.send_header(name, value)
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        while part := answer.read1(65536):
            if left is not None:
                part, left = part[:left], left - len(part)
            request.wfile.write(b"%x\r\n%b\r\n" % (len(part), part) if part else b"")
            request.wfile.flush()
            if left is not None and left <= 0:
                request.close_connection = True
                return
        request.wfile.write(b"0\r\n\r\n")


def connect(server: Configuration) -> HTTPSConnection:
    """Return a connection to the API server with the administrator's certificate."""
    found = urlsplit(server.host)
    context = ssl.create_default_context(cafile=server.ssl_ca_cert)
    if server.cert_file:
        context.load_cert_chain(server.cert_file, server.key_file)
    options: dict[str, Any] = {"context": context, "timeout": 600}
    return HTTPSConnection(found.hostname or "", found.port or 443, **options)
