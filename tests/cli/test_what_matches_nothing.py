"""What matches nothing is told, with what may have been meant; folders and bundles are read."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from command_line import walras_here as walras
from waiting import eventually
from walras.clearing import clear
from walras.market.checks import SnapshotError
from walras.market.snapshot import Entitlement, Job, Node, Snapshot
from walras_cli.patience import patience

Document = dict[str, Any]

CASES = Path(__file__).parent / "first_look"
KUBEADM = Path(__file__).parent / "dumps/kubeadm.yaml"
EXAMPLE = Path(__file__).parents[2] / "examples/what-if/cluster.yaml"


def items(name: str) -> list[Document]:
    found: list[Document] = json.loads((CASES / name).read_text())["items"]
    return found


def without_kind(documents: list[Document], kind: str) -> list[Document]:
    return [
        {key: each[key] for key in each if key not in {"apiVersion", "kind"}}
        for each in documents
        if each["kind"] == kind
    ]


def test_a_misspelt_kind_of_ours_is_told(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    typo = {
        "apiVersion": "walras.dev/v1alpha1",
        "kind": "Entitlment",
        "metadata": {"name": "vision"},
        "spec": {"shares": 3, "namespaces": ["vision"]},
    }
    file.write_text(f"{EXAMPLE.read_text()}\n---\n{yaml.safe_dump(typo)}")
    done = walras("what-if", "-f", str(file))
    assert done.returncode == 2
    assert "Entitlment vision: kind: is Entitlment; did you mean Entitlement?" in done.stderr


def test_kinds_of_others_and_of_programs_are_no_typing_errors(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    others = [
        {"apiVersion": "example.org/v1", "kind": "Entitlment", "metadata": {"name": "theirs"}},
        {"apiVersion": "walras.dev/v1alpha1", "kind": "LocalRun", "metadata": {"name": "run"}},
    ]
    file.write_text(f"{EXAMPLE.read_text()}\n---\n{yaml.safe_dump_all(others)}")
    assert walras("what-if", "-f", str(file)).returncode == 0


def test_objects_without_a_kind_are_read_as_what_they_show(tmp_path: Path) -> None:
    documents = items("share-not-reached.json")
    lone = json.loads((CASES / "node-without-kind.json").read_text())
    files = {
        "nodes.json": without_kind(documents, "Node"),
        "pods.json": {"items": without_kind(documents, "Pod")},
        "lone.json": lone,
    }
    arguments = []
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
        arguments += ["-f", str(tmp_path / name)]
    first = walras("what-if", *arguments).stdout.splitlines()[1]
    assert first.startswith("4 nodes with 51.5 CPUs for 5 pods of 5 jobs.")


def test_an_object_that_shows_no_kind_is_told_which_kinds_matter(tmp_path: Path) -> None:
    file = tmp_path / "what.json"
    file.write_text(json.dumps({"metadata": {"name": "what"}, "spec": {}}))
    done = walras("what-if", "-f", str(file))
    assert done.returncode == 2
    assert "object what: kind: is missing; write the kind: Entitlement" in done.stderr
    assert "or of Kubernetes Node, Pod and Namespace" in done.stderr


def test_a_folder_is_read_as_its_files_are(tmp_path: Path) -> None:
    documents = items("share-not-reached.json")
    folder = tmp_path / "bundle/cluster-resources"
    (folder / "pods").mkdir(parents=True)
    (folder / "nodes.json").write_text(json.dumps(without_kind(documents, "Node")))
    (folder / "pods/all.json").write_text(json.dumps(without_kind(documents, "Pod")))
    (folder / "groups.json").write_text(json.dumps([{"name": "apps"}]))
    (folder / "names.json").write_text(json.dumps(["apps", "batch"]))
    (folder / "logs.txt").write_text("not: [read")
    of_folder = walras("what-if", "-f", str(tmp_path / "bundle"), "-o", "json")
    of_file = walras("what-if", "-f", str(CASES / "share-not-reached.json"), "-o", "json")
    assert json.loads(of_folder.stdout)["users"] == json.loads(of_file.stdout)["users"]


def test_a_folder_without_documents_is_told(tmp_path: Path) -> None:
    done = walras("what-if", "-f", str(tmp_path))
    assert done.returncode == 2
    assert f"{tmp_path}: has no files of the names .json, .yaml, .yml" in done.stderr


def test_speedups_of_what_does_not_run_are_told(tmp_path: Path) -> None:
    file = tmp_path / "speedups.yaml"
    file.write_text("analytic/fit: 0.9\nshop: 0.8\nnobody: 0.5\n")
    look = json.loads(
        walras("what-if", "-f", str(KUBEADM), "--speedups", str(file), "-o", "json").stdout
    )
    assert (
        "--speedups names no job and no namespace that has pods: analytic/fit (did you mean "
        "analytics/fit?), nobody" in look["notes"]
    )


@pytest.mark.parametrize(
    ("users_by", "told"),
    [
        ("label:ap", "no pod and no namespace has the label ap (did you mean app?)"),
        (
            "annotation:team",
            "no pod and no namespace has the annotation team; there are kubernetes.io",
        ),
        ("kueue", "--users-by kueue: there are no queues"),
    ],
)
def test_users_by_what_nothing_has_is_told(users_by: str, told: str) -> None:
    done = walras("what-if", "-f", str(KUBEADM), "--users-by", users_by)
    assert done.returncode == 2
    assert told in done.stderr


def test_an_entitlement_to_a_namespace_that_is_none_is_told(tmp_path: Path) -> None:
    text = (CASES / "bystander.yaml").read_text().replace("namespaces: [b]", "namespaces: [b, aa]")
    file = tmp_path / "cluster.yaml"
    file.write_text(text)
    plan = json.loads(walras("what-if", "-f", str(file), "-o", "json").stdout)
    assert "Entitlement b: there is no namespace aa (did you mean a?)" in plan["notes"]


ANN = Entitlement("ann", 1, namespaces=frozenset({"lab"}))
NODE = Node("n1", 4)
JOB = Job("lab", "train", "ann", "n1", 0.9)


@pytest.mark.parametrize(
    ("snapshot", "told"),
    [
        (Snapshot((ANN,), (Node("n1", -1),), (JOB,)), "Node n1: cores = -1 is not finite and"),
        (Snapshot((ANN,), (NODE,), (JOB, JOB)), "Job lab/train: there are two of this name on"),
        (
            Snapshot((Entitlement("ann", 1, namespaces="lab"),), (NODE,), (JOB,)),  # type: ignore[arg-type]
            "Entitlement ann: namespaces = 'lab' is a text; give a set of names",
        ),
    ],
)
def test_the_library_refuses_what_it_would_misunderstand(snapshot: Snapshot, told: str) -> None:
    with pytest.raises(SnapshotError, match=told):
        clear(snapshot)


@pytest.mark.parametrize("command", ["local", "profile"])
def test_what_only_linux_has_is_told_elsewhere(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    done = walras(command, "--help")
    assert done.returncode == 1
    assert f"walras {command} needs Linux" in done.stderr


@pytest.mark.system
@pytest.mark.parametrize("form", ["table", "json"])
def test_who_reads_no_further_has_what_it_wanted(form: str) -> None:
    command = [sys.executable, "-m", "walras_cli", "what-if", "-f", str(KUBEADM), "-o", form]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()  # before anything is written
        assert running.stderr.read() == b""
    assert running.returncode == 0


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_who_waits_is_told_for_what(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with patience("clearing the market", after=0) as tell:
        assert eventually(lambda: "walras: clearing the market ..." in terminal.getvalue())
        tell("assumption 2 of 5")
        assert terminal.getvalue().endswith("walras: clearing the market: assumption 2 of 5 ...")
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_who_does_not_wait_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with patience("clearing the market", after=600) as tell:
        tell("assumption 2 of 5")
    assert terminal.getvalue() == ""
