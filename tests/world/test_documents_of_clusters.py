"""Files of clusters as people have them: what Walras does not use stops and changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from walras_api.parse import parse_object
from walras_cli.cluster.options import Target
from walras_cli.cluster_documents import documents_of
from walras_cli.documents import InputError, read
from walras_cli.what_if.changes import ChangedCluster
from walras_cli.what_if.situation import situation_of_documents
from walras_service.failures import BadInput

if TYPE_CHECKING:
    from pathlib import Path

MARKET = """\
apiVersion: walras.dev/v1alpha1
kind: Entitlement
metadata: {name: lab}
spec: {shares: 1, namespaces: [lab]}
---
apiVersion: walras.dev/v1alpha1
kind: MarketJob
metadata: {name: train, namespace: lab}
spec: {entitlement: lab, parallelFraction: "0.99", selector: {matchLabels: {app: train}}}
---
apiVersion: v1
kind: Node
metadata: {name: n1}
status:
  allocatable: {cpu: "8", memory: 32Gi, pods: "110"}
  conditions: [{type: Ready, status: "True"}]
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: big, namespace: other}
spec: {nodeName: n1, containers: [{name: c, resources: {requests: {cpu: "6"}}}]}
status: {phase: Running}
"""
ITEM = POD.partition("kind: Pod\n")[2]


def item(text: str) -> str:
    return "- " + text.replace("\n", "\n  ").rstrip() + "\n"


CASES: dict[str, tuple[float, str]] = {
    "null fields of a pod": (
        8,
        (
            "apiVersion: v1\nkind: Pod\n"
            "metadata: {name: x, namespace: other, labels: null, annotations: null, uid: null,\n"
            "  ownerReferences: null, creationTimestamp: null}\n"
            "spec: {nodeName: n1, initContainers: null, overhead: null, containers: [{name: c,\n"
            "  ports: null, restartPolicy: null, resources: null}], resources: null}\n"
            "status: {phase: null, startTime: null, conditions: null, containerStatuses: null}\n"
        ),
    ),
    "null values within fields of a pod": (
        6,
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: x, namespace: other, labels: {a: null}}\n"
            "spec: {nodeName: n1, containers: [{name: c,\n"
            "  resources: {requests: {cpu: '2', memory: null}, limits: null}}]}\n"
            "status: {phase: Running, containerStatuses: [{name: c, resources: null,\n"
            "  allocatedResources: null}]}\n"
        ),
    ),
    "null status of a pod": (
        2,
        POD.replace("status: {phase: Running}", "status: null"),
    ),
    "null fields of a node": (
        16,
        (
            "apiVersion: v1\nkind: Node\nmetadata: {name: n2, labels: null}\n"
            "spec: {unschedulable: null, taints: null}\n"
            "status: {allocatable: {cpu: '8', memory: null}, conditions: null}\n"
        ),
    ),
    "null fields of kinds of Walras": (
        8,
        (
            "apiVersion: walras.dev/v1alpha1\nkind: Market\n"
            "metadata: {name: default, labels: null}\n"
            "spec: {cores: null, memory: {mechanism: null}}\n"
            "status: null\n"
        ),
    ),
    "a Job without a name": (
        8,
        "apiVersion: batch/v1\nkind: Job\nmetadata: {generateName: sample-, namespace: lab}\n",
    ),
    "a Deployment without metadata": (8, "apiVersion: apps/v1\nkind: Deployment\n"),
    "pods whose names would be made": (
        4,
        2 * (POD.replace("name: big", "generateName: big-").replace('"6"', '"2"') + "---\n"),
    ),
    "a plain =": (
        8,
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {operator: =}\n",
    ),
    "a plain = in what is used": (
        2,
        POD.replace("namespace: other", "namespace: other, annotations: {a: =}"),
    ),
    "a kind of that name in another group": (
        8,
        "apiVersion: example.com/v1\nkind: Market\nmetadata: {name: m}\nspec: {a: 1}\n",
    ),
    "a List": (2, f"apiVersion: v1\nkind: List\nitems:\n{item(POD)}"),
    "a PodList": (2, f"apiVersion: v1\nkind: PodList\nmetadata: {{}}\nitems:\n{item(POD)}"),
    "a PodList whose items do not say again what they are": (
        2,
        f"apiVersion: v1\nkind: PodList\nitems:\n{item(ITEM)}",
    ),
    "a NodeList": (
        16,
        (
            "apiVersion: v1\nkind: NodeList\nitems:\n"
            "- {metadata: {name: n2}, status: {allocatable: {cpu: '8'}}}\n"
        ),
    ),
    "a list of a kind of Walras": (
        8,
        (
            "apiVersion: walras.dev/v1alpha1\nkind: EntitlementList\nitems:\n"
            "- {metadata: {name: other}, spec: {shares: 1, namespaces: [other]}}\n"
        ),
    ),
    "lists in a list": (
        2,
        "apiVersion: v1\nkind: List\nitems:\n"
        + item(f"apiVersion: v1\nkind: PodList\nitems:\n{item(ITEM)}"),
    ),
    "a list of nothing": (8, "apiVersion: v1\nkind: PodList\nitems: null\n"),
    "a kind that only sounds like a list": (
        8,
        "apiVersion: example.com/v1\nkind: AllowList\nmetadata: {name: a}\nspec: {}\n",
    ),
}


@pytest.mark.parametrize(("sold", "text"), CASES.values(), ids=CASES.keys())
def test_a_cluster_sells_what_it_has_whatever_else_is_in_its_files(
    tmp_path: Path, sold: float, text: str
) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(f"{MARKET}---\n{text}")
    situation = situation_of_documents(documents_of([file]), "cluster.yaml", None)
    assert sum(node.cores for node in situation.snapshot.nodes) == sold


def test_what_is_not_used_is_counted_in_one_line(tmp_path: Path) -> None:
    file, dump = tmp_path / "change.yaml", tmp_path / "cluster.yaml"
    dump.write_text(
        f"{MARKET}---\napiVersion: v1\nkind: Secret\nmetadata: {{name: s}}\n---\n"
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\n"
    )
    file.write_text(
        "apiVersion: v1\nkind: SecretList\nitems: [{metadata: {name: t}}, {metadata: {name: u}}]\n"
    )
    found = ChangedCluster.of([file], [dump], None, Target(), live=False)
    assert found.then.notes[-1] == "ignored objects: 1 Deployment, 3 Secret"
    plain = tmp_path / "plain.yaml"
    plain.write_text(MARKET)
    found = ChangedCluster.of([plain], [], None, Target(), live=False)
    assert not [note for note in found.then.notes if "not used" in note]


def test_a_key_that_is_used_twice_is_named(tmp_path: Path) -> None:
    """PyYAML takes the last one without a word; the API server refuses it."""
    file = tmp_path / "twice.yaml"
    file.write_text(MARKET.replace("spec: {shares: 1,", "spec: {shares: 1, shares: 2,"))
    with pytest.raises(InputError) as refused:
        read([file], parse_object)
    (problem,) = refused.value.problems
    assert problem == f"{file}: line 4, column 19: the key shares is used twice; keep one"


def test_what_is_used_must_be_right(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(f"{MARKET}---\n{POD.replace('6', 'six')}")
    with pytest.raises(BadInput, match=r"Pod other/big: .*cpu: is 'six'"):
        documents_of([file])
