"""Measure what it costs the operator to take in pods: CPU time and memory.

A server in another process answers lists in pages, and watches, with the bytes that an API server
sends for pods of real size. The operator's watches and mirror take in as many pods by the first
lists as they then do by events. The peers take in the same: the informer of the Kubernetes client,
whose cache is its mirror, and a process that decodes it by `json.loads` and keeps nothing. No
decision is made; see `operator_decision.py`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import psutil
from rich.console import Console
from rich.table import Table

from walras_service.kinds import LEASES, NAMESPACES, NODES, OURS, PODS, WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Document = dict[str, Any]

SIZES = (1_000, 10_000)
TARGET_SECONDS = 8.0
"""Most CPU time for 10 000 new pods."""

_KINDS = {
    **OURS,
    **WORKLOADS,
    "Lease": LEASES,
    "Namespace": NAMESPACES,
    "Node": NODES,
    "Pod": PODS,
}
_TIME = "2026-01-31T12:00:00Z"


def pod(number: int) -> Document:
    """Return a running pod with what Kubernetes, its user and a CNI plugin add to one: 8 KB."""
    app, address = f"job-{number // 10}", f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
    labels = {"app": app, "batch.kubernetes.io/job-name": app, "controller-uid": f"uid-of-{app}"}
    fields: Document = {
        f"f:{each}": {f'k:{{"type":"{each}"}}': {"f:status": {}}} for each in range(20)
    }
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": f"{app}-{number % 10}",
            "namespace": "vision",
            "uid": f"00000000-0000-4000-8000-{number:012}",
            "resourceVersion": str(1_000 + number),
            "creationTimestamp": _TIME,
            "labels": labels,
            "annotations": {
                "cni.projectcalico.org/podIP": f"{address}/32",
                "example.org/config": "x" * 500,
            },
            "ownerReferences": [
                {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "name": app,
                    "uid": f"uid-of-{app}",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": [
                {"manager": each, "operation": "Update", "time": _TIME, "fieldsV1": fields}
                for each in ("kube-controller-manager", "kubelet")
            ],
        },
        "spec": {
            "nodeName": f"node-{number % 1000}",
            "schedulerName": "default-scheduler",
            "containers": [
                {
                    "name": "train",
                    "image": "registry.example.org/lab/train:1.4.2",
                    "resources": {"requests": {"cpu": "2", "memory": "4Gi"}},
                    "command": ["python", "-m", "train", "--seed", str(number)],
                    "env": [{"name": f"NAME_{i}", "value": f"{number}-{i}"} for i in range(16)],
                    "volumeMounts": [{"name": f"v{i}", "mountPath": f"/v{i}"} for i in range(8)],
                }
            ],
            "volumes": [{"name": f"v{i}", "configMap": {"name": f"{app}-{i}"}} for i in range(8)],
            "tolerations": [
                {"key": f"node.kubernetes.io/{each}", "operator": "Exists", "effect": "NoExecute"}
                for each in ("not-ready", "unreachable")
            ],
        },
        "status": {
            "phase": "Running",
            "podIP": address,
            "startTime": _TIME,
            "qosClass": "Burstable",
            "conditions": [
                {"type": each, "status": "True", "lastTransitionTime": _TIME}
                for each in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
            ],
            "containerStatuses": [
                {
                    "name": "train",
                    "containerID": f"containerd://{number:064x}",
                    "image": "registry.example.org/lab/train:1.4.2",
                    "imageID": f"sha256:{number:064x}",
                    "ready": True,
                    "restartCount": 0,
                }
            ],
        },
    }


def encoded(document: Document) -> bytes:
    """Return JSON as an API server writes it."""
    return json.dumps(document, separators=(",", ":")).encode()


class Handler(BaseHTTPRequestHandler):
    """Serves half of the pods by lists, and the others by watches after a request of /begin.

    Attributes:
        pods: All pods, encoded.
        begun: Whether the second half is there.
    """

    protocol_version = "HTTP/1.1"
    pods: tuple[bytes, ...] = ()
    begun = threading.Event()

    def do_GET(self) -> None:
        """Answer discovery, a list, or a watch."""
        parts = urlsplit(self.path)
        query = {key: each[0] for key, each in parse_qs(parts.query).items()}
        name = next((name for name, kind in _KINDS.items() if kind.path() == parts.path), None)
        if name is None:
            if parts.path == "/begin":
                self.begun.set()
            self._send(encoded(discovery(parts.path)))
        elif "watch" in query:
            self._watch(name)
        else:
            self._send(self._list(name, query))

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def _list(self, name: str, query: dict[str, str]) -> bytes:
        items = self.pods[: len(self.pods) // 2] if name == "Pod" else ()
        begin = int(query.get("continue") or 0)
        end = begin + int(query.get("limit") or len(items))
        metadata = {"resourceVersion": "5", "continue": str(end) if end < len(items) else ""}
        head = {"kind": f"{name}List", "apiVersion": _KINDS[name].api_version, "metadata": metadata}
        return encoded(head)[:-1] + b',"items":[' + b",".join(items[begin:end]) + b"]}"

    def _watch(self, name: str) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if name == "Pod":
            self.begun.wait()
            for each in self.pods[len(self.pods) // 2 :]:
                line = b'{"type":"ADDED","object":' + each + b"}\n"
                self.wfile.write(b"%x\r\n%b\r\n" % (len(line), line))
        threading.Event().wait()

    def _send(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def discovery(path: str) -> Document:
    """Return the groups, versions and kinds that an API server has."""
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        groups = {kind.group: kind for kind in _KINDS.values() if kind.group}
        version = {
            name: {"groupVersion": kind.api_version, "version": kind.version}
            for name, kind in groups.items()
        }
        return {
            "kind": "APIGroupList",
            "groups": [
                {"name": name, "versions": [each], "preferredVersion": each}
                for name, each in version.items()
            ],
        }
    found = [
        {
            "name": kind.plural,
            "singularName": name.lower(),
            "kind": name,
            "namespaced": kind.namespaced,
            "verbs": ["list", "watch"],
        }
        for name, kind in _KINDS.items()
        if path.endswith(f"/{kind.api_version}")
    ]
    return {"kind": "APIResourceList", "resources": found}


def serve(pods: int) -> None:
    """Serve until this process is ended; print the address first."""
    Handler.pods = tuple(encoded(pod(number)) for number in range(2 * pods))
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


class Meter:
    """Prints the CPU seconds and the memory (MiB) that this process has taken so far."""

    def __init__(self) -> None:
        self.say()

    def say(self) -> None:
        """Print a line."""
        memory = psutil.Process().memory_info().rss / 2**20
        print(json.dumps([time.process_time(), memory]), flush=True)


def begin(url: str) -> None:
    """Make the second half of the pods."""
    urllib.request.urlopen(f"{url}/begin").read()  # noqa: S310 - our own server


def listen(url: str, pods: int) -> None:
    """Take in all pods as the operator does."""
    from kubernetes.client import Configuration

    import walras_operator.process  # noqa: F401 - what the operator's process has loaded
    from walras_operator.interpreter.allocator_arenas import limit_arenas
    from walras_operator.watch.kinds import Scope
    from walras_operator.watch.mirror import Mirror
    from walras_operator.watch.watches import Watches
    from walras_service.api import Api

    limit_arenas()
    kinds = Scope("walras-system").kinds
    mirror = Mirror(kinds, lambda _: None, time.monotonic)
    watches = Watches(Api(Configuration(host=url, retries=False), "benchmark", 2), kinds, mirror)
    meter = Meter()
    watches.start()
    wait_for(lambda: watches.complete)
    meter.say()
    begin(url)
    wait_for(lambda: mirror.counts()["Pod"][0] == 2 * pods)
    meter.say()
    os._exit(0)  # the watches take their time to end


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait, at almost no CPU time."""
    while not condition():
        time.sleep(0.25)


def inform(url: str, pods: int) -> None:
    """Take in all pods by the informer of the Kubernetes client."""
    from kubernetes.client import ApiClient, Configuration, CoreV1Api
    from kubernetes.informer import SharedInformer

    core = CoreV1Api(ApiClient(Configuration(host=url)))
    informer: Any = SharedInformer(core.list_pod_for_all_namespaces)  # type: ignore[no-untyped-call]
    meter = Meter()
    informer.start()
    wait_for(lambda: len(informer.cache.list_keys()) == pods)
    meter.say()
    begin(url)
    wait_for(lambda: len(informer.cache.list_keys()) == 2 * pods)
    meter.say()
    os._exit(0)


def decode(url: str, pods: int) -> None:
    """Decode all pods, and keep nothing."""
    meter, more = Meter(), ""
    while True:
        page = f"{url}/api/v1/pods?limit=500&continue={more}"
        with urllib.request.urlopen(page) as answer:  # noqa: S310 - our own server
            more = json.loads(answer.read())["metadata"]["continue"]
        if not more:
            break
    meter.say()
    with urllib.request.urlopen(f"{url}/api/v1/pods?watch=true") as answer:  # noqa: S310
        begin(url)
        for _ in range(pods):
            json.loads(answer.readline())
        meter.say()
    os._exit(0)


@contextmanager
def process(role: str, *arguments: str) -> Iterator[IO[str]]:
    """Run this program in another process in a role; return what it prints."""
    command = [sys.executable, __file__, role, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as started:
        try:
            assert started.stdout is not None  # noqa: S101 - it is a pipe
            yield started.stdout
        finally:
            started.kill()


def measured(role: str, pods: int) -> tuple[float, float, float]:
    """Return the CPU seconds of the lists and of the events, and the KiB that a pod takes."""
    with process("serve", str(pods)) as server:
        url = server.readline().strip()
        with process(role, url, str(pods)) as listener:
            before, listed, heard = map(json.loads, listener)
    memory = (heard[1] - before[1]) * 1024 / (2 * pods)
    return listed[0] - before[0], heard[0] - listed[0], memory


def run(sizes: tuple[int, ...]) -> bool:
    """Measure all sizes, print a table, and return whether the target is met."""
    table = Table("", title="To take in pods", title_justify="left")
    for column in (
        "lists, CPU s",
        "events, CPU s",
        "target",
        "KiB a pod",
        "client's informer",
        "decoding alone, CPU s",
    ):
        table.add_column(column, justify="right", no_wrap=True)
    met = True
    for pods in sizes:
        lists, events, memory = measured("listen", pods)
        informer, peer = measured("inform", pods), measured("decode", pods)
        target = TARGET_SECONDS * pods / 10_000
        met = met and events <= target
        figures = (
            f"{lists:.3g}",
            f"{events:.3g}",
            f"{target:g}",
            f"{memory:.3g}",
            f"{informer[0]:.2g} and {informer[1]:.2g} s, {informer[2]:.0f} KiB",
        )
        table.add_row(f"{pods} pods", *figures, f"{peer[0]:.2g} and {peer[1]:.2g}")
    Console(width=120).print(table)
    return met


def main(*arguments: str) -> bool:
    """Measure all sizes or those that are given, or be one of the processes."""
    match arguments:
        case ("serve", pods):
            serve(int(pods))
        case ("listen", url, pods):
            listen(url, int(pods))
        case ("inform", url, pods):
            inform(url, int(pods))
        case ("decode", url, pods):
            decode(url, int(pods))
        case _:
            return run(tuple(map(int, arguments)) or SIZES)
    return True


if __name__ == "__main__":
    sys.exit(not main(*sys.argv[1:]))
