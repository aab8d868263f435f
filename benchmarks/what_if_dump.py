"""Time of `walras what-if -f -` on a dump of a cluster that has never heard of Walras.

The dump is what kubectl would print of 300 nodes with 18 pods each: with probes, environments,
volumes and statuses of containers, so that reading it is most of the work, as with real ones.

    python benchmarks/what_if_dump.py [--nodes 300] [--pods 5400] [--form yaml|json] [--keep FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

Document = dict[str, Any]

NAMESPACES = 40
PODS_OF_WORKLOAD = 12


def node(number: int) -> Document:
    """Return a Node of 16 CPUs, with the images and conditions that a kubelet reports."""
    name = f"ip-10-0-{number // 250}-{number % 250}.eu-west-1.compute.internal"
    conditions = [
        {
            "lastHeartbeatTime": "2026-11-20T10:00:00Z",
            "lastTransitionTime": "2026-11-01T10:00:00Z",
            "message": f"kubelet has no problem of {kind}",
            "reason": f"KubeletHasNo{kind}",
            "status": status,
            "type": kind,
        }
        for kind, status in (
            ("MemoryPressure", "False"),
            ("DiskPressure", "False"),
            ("PIDPressure", "False"),
            ("Ready", "True"),
        )
    ]
    images = [
        {
            "names": [
                f"registry.example.com/app-{each}@sha256:{each:064x}",
                f"app-{each}:1",
            ],
            "sizeBytes": 10_000_000 + each,
        }
        for each in range(40)
    ]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "annotations": {"node.alpha.kubernetes.io/ttl": "0"},
            "creationTimestamp": "2026-11-01T10:00:00Z",
            "labels": {
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "node.kubernetes.io/instance-type": "m6i.4xlarge",
                "topology.kubernetes.io/zone": f"eu-west-1{'abc'[number % 3]}",
            },
            "name": name,
            "resourceVersion": str(number),
            "uid": f"node-{number}",
        },
        "spec": {
            "podCIDR": f"10.{number // 250}.{number % 250}.0/24",
            "providerID": f"aws:///{number}",
        },
        "status": {
            "addresses": [
                {"address": f"10.0.{number // 250}.{number % 250}", "type": "InternalIP"},
                {"address": name, "type": "Hostname"},
            ],
            "allocatable": {"cpu": "15890m", "memory": "60000000Ki", "pods": "110"},
            "capacity": {"cpu": "16", "memory": "64000000Ki", "pods": "110"},
            "conditions": conditions,
            "images": images,
            "nodeInfo": {"architecture": "amd64", "kubeletVersion": "v1.33.1"},
        },
    }


def pod(number: int, nodes: int) -> Document:
    """Return a pod of a Deployment, as long as pods of real clusters are."""
    workload = number // PODS_OF_WORKLOAD
    namespace, name = f"team-{workload % NAMESPACES}", f"app-{workload}"
    cpu = ("100m", "250m", "500m", "1", "2")[workload % 5]
    resources: Document = {"requests": {"cpu": cpu, "memory": "256Mi"}}
    if workload % 3 == 0:
        resources["limits"] = {"cpu": "4", "memory": "1Gi"}
    probe = {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "annotations": {"prometheus.io/scrape": "true", "checksum/config": f"{number:064x}"},
            "creationTimestamp": "2026-11-20T10:00:00Z",
            "generateName": f"{name}-5d8f7c9b6-",
            "labels": {"app": name, "pod-template-hash": "5d8f7c9b6", "team": namespace},
            "name": f"{name}-5d8f7c9b6-{number:05d}",
            "namespace": namespace,
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "blockOwnerDeletion": True,
                    "controller": True,
                    "kind": "ReplicaSet",
                    "name": f"{name}-5d8f7c9b6",
                    "uid": f"rs-{workload}",
                }
            ],
            "resourceVersion": str(100_000 + number),
            "uid": f"pod-{number}",
        },
        "spec": {
            "containers": [
                {
                    "args": ["--config=/etc/app/config.yaml", "--port=8080", f"--shard={number}"],
                    "env": [{"name": f"SETTING_{each}", "value": f"v{each}"} for each in range(12)],
                    "image": f"registry.example.com/{name}:1.{workload}",
                    "imagePullPolicy": "IfNotPresent",
                    "livenessProbe": probe,
                    "name": "main",
                    "ports": [{"containerPort": 8080, "name": "http", "protocol": "TCP"}],
                    "readinessProbe": probe,
                    "resources": resources,
                    "securityContext": {"allowPrivilegeEscalation": False},
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                    "volumeMounts": [
                        {"mountPath": "/etc/app", "name": "config", "readOnly": True},
                        {
                            "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
                            "name": f"kube-api-access-{number}",
                            "readOnly": True,
                        },
                    ],
                }
            ],
            "dnsPolicy": "ClusterFirst",
            "enableServiceLinks": True,
            "nodeName": node(number % nodes)["metadata"]["name"],
            "preemptionPolicy": "PreemptLowerPriority",
            "priority": 0,
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "securityContext": {},
            "serviceAccount": "default",
            "serviceAccountName": "default",
            "terminationGracePeriodSeconds": 30,
            "tolerations": [
                {
                    "effect": "NoExecute",
                    "key": f"node.kubernetes.io/{each}",
                    "operator": "Exists",
                    "tolerationSeconds": 300,
                }
                for each in ("not-ready", "unreachable")
            ],
            "volumes": [
                {"configMap": {"defaultMode": 420, "name": name}, "name": "config"},
                {
                    "name": f"kube-api-access-{number}",
                    "projected": {
                        "defaultMode": 420,
                        "sources": [
                            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                            {
                                "configMap": {
                                    "items": [{"key": "ca.crt", "path": "ca.crt"}],
                                    "name": "kube-root-ca.crt",
                                }
                            },
                        ],
                    },
                },
            ],
        },
        "status": {
            "conditions": [
                {
                    "lastProbeTime": None,
                    "lastTransitionTime": "2026-11-20T10:00:00Z",
                    "status": "True",
                    "type": kind,
                }
                for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
            ],
            "containerStatuses": [
                {
                    "containerID": f"containerd://{number:064x}",
                    "image": f"registry.example.com/{name}:1.{workload}",
                    "imageID": f"registry.example.com/{name}@sha256:{workload:064x}",
                    "lastState": {},
                    "name": "main",
                    "ready": True,
                    "restartCount": 0,
                    "started": True,
                    "state": {"running": {"startedAt": "2026-11-20T10:00:00Z"}},
                }
            ],
            "hostIP": "10.0.0.1",
            "phase": "Running",
            "podIP": f"10.1.{number // 250}.{number % 250}",
            "podIPs": [{"ip": f"10.1.{number // 250}.{number % 250}"}],
            "qosClass": "Burstable",
            "startTime": "2026-11-20T10:00:00Z",
        },
    }


def dump(nodes: int, pods: int) -> Document:
    """Return the List that kubectl would print."""
    items = [node(each) for each in range(nodes)]
    items += [pod(each, nodes) for each in range(pods)]
    items += [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"team-{each}"}}
        for each in range(NAMESPACES)
    ]
    return {"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}}


def main() -> None:
    """Write the dump, and time the command in a process of its own, three times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=300)
    parser.add_argument("--pods", type=int, default=5400)
    parser.add_argument("--form", choices=["yaml", "json"], default="yaml")
    parser.add_argument("--keep", type=Path, help="file to which the dump is written")
    chosen = parser.parse_args()
    document = json.loads(json.dumps(dump(chosen.nodes, chosen.pods)))  # kubectl prints no aliases
    if chosen.form == "json":
        text = json.dumps(document, indent=4)
    else:
        dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
        text = yaml.dump(document, Dumper=dumper, default_flow_style=False, width=10**6)
    with tempfile.TemporaryDirectory() as folder:
        file = chosen.keep or Path(folder) / "cluster"
        file.write_text(text)
        size = f"{len(text) / 2**20:.1f} MiB of {chosen.form}"
        print(f"{chosen.nodes} nodes, {chosen.pods} pods, {size}")
        for _ in range(3):
            begin, before = time.perf_counter(), os.times()
            with file.open() as given:
                subprocess.run(
                    [sys.executable, "-m", "walras_cli", "what-if", "-f", "-"],
                    stdin=given,
                    stdout=subprocess.DEVNULL,
                    check=True,
                )
            wall, after = time.perf_counter() - begin, os.times()
            cpu = after.children_user + after.children_system
            cpu -= before.children_user + before.children_system
            print(f"{wall:.2f} s, of which {cpu:.2f} s on a CPU")


if __name__ == "__main__":
    main()
