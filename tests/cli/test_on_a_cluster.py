"""`walras top`, `explain` and `what-if` on a real API server, with what the real operator wrote.

Nodes and Pods are objects only, and agents are played by `market_cluster`; the command is run as
users run it, with an administrator's kubeconfig or one of somebody with few rights.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from chart import POLICIES, of_kind, rendered
from cluster_tools import clients
from command_line import start, walras
from market_cluster import DEFINITIONS, OURS, MarketCluster
from page_fields import untold
from real_cluster import KUBECONFIG, kill_server, needs_cluster, start_server
from waiting import eventually
from walras_cli.cluster.connection import connect
from walras_cli.cluster.options import Target
from walras_service.api_errors import ApiError
from walras_service.kinds import OURS as KINDS
from worlds import document, job, market, node, pod

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = needs_cluster

Document = dict[str, Any]

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MarketCluster]:
    """Two nodes, a tree of users, jobs of theirs, one that is refused, and a pod of nobody's."""
    made = MarketCluster(KUBECONFIG, tmp_path_factory.mktemp("cluster"))
    try:
        _fill(made)
        yield made
    finally:
        made.close()


def _fill(made: MarketCluster) -> None:
    def user(name: str, **spec: Any) -> Document:
        return document("Entitlement", name, spec={"shares": 1, **spec})

    for name in ("cli-vision", "cli-speech"):
        made.namespace(name)
    made.make(
        market(epochSeconds=5, memory={"sliceSize": "256Mi"}),
        node("cli-1", "16"),
        node("cli-2", "16"),
        user("engineering", shares=2),
        user("vision-lab", shares=3, parent="engineering", namespaces=["cli-vision"]),
        user("speech-lab", parent="engineering", namespaces=["cli-speech"]),
        job("train", "vision-lab", "cli-vision", parallelFraction="0.98", memory={"demand": "6Gi"}),
        job("render", "vision-lab", "cli-vision", parallelFraction="0.75", maxCores=6),
        job("decode", "speech-lab", "cli-speech", parallelFraction="0.9"),
        job("lost", "nobody", "cli-speech"),
        pod("train-0", "train", "cli-1", namespace="cli-vision"),
        pod("train-1", "train", "cli-2", namespace="cli-vision"),
        pod("render-0", "render", "cli-1", namespace="cli-vision"),
        pod("decode-0", "decode", "cli-2", namespace="cli-speech"),
        pod("lost-0", "lost", "cli-1", namespace="cli-speech"),
        pod("web-0", "web", "cli-2", namespace="cli-speech", cpu="1500m"),
    )
    made.agents_live(["cli-1", "cli-2"])
    made.start_operator()
    assert eventually(lambda: made.read(f"{OURS}/nodeallocations/cli-2"))

    def held() -> bool:
        made.agents_answer()
        return made.enforced()

    assert eventually(held)


def run(*arguments: str, code: int = 0, columns: str = "200") -> str:
    """Run the command on the cluster, and return its output, or its error if it is to fail."""
    done = walras(*arguments, KUBECONFIG=KUBECONFIG, COLUMNS=columns)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def told(*arguments: str) -> Document:
    found: Document = json.loads(run(*arguments, "-o", "json"))
    return found


@pytest.mark.parametrize(
    "command",
    ["top -A", "explain job train -n cli-vision", "explain user vision-lab", "explain node cli-1"],
)
def test_fields_for_scripts_are_on_their_page(cluster: MarketCluster, command: str) -> None:
    assert untold(told(*command.split()), "cluster-cli.md") == set()


def test_tables_are_for_people_and_whole_where_they_are_not_on_a_terminal(
    cluster: MarketCluster,
) -> None:
    table = run("top", "-n", "cli-vision", columns="20")
    assert "Jobs in namespace cli-vision" in table
    (line,) = (each for each in table.splitlines() if each.startswith("train"))
    assert line.split()[:3] == ["train", "vision-lab", "2/2"]
    assert "decode" not in table
    assert "share of" in run("top", "users", "-o", "wide")
    assert yaml.safe_load(run("top", "nodes", "-o", "yaml"))["nodes"][0]["name"] == "cli-1"
    assert "There are no MarketJobs in namespace default" in run("top", "jobs")


def test_selectors_and_order_are_as_asked(cluster: MarketCluster) -> None:
    cluster.change("/api/v1/nodes/cli-2", {"metadata": {"labels": {"pool": "two"}}})
    assert [row["name"] for row in told("top", "nodes", "-l", "pool=two")["nodes"]] == ["cli-2"]
    rows = told("top", "jobs", "-A", "--sort-by", "held")["jobs"]
    held = [row["held"] or 0 for row in rows]
    assert held == sorted(held, reverse=True)
    assert "-l applies to one kind of object" in run("top", "-l", "a=b", code=2)


METRICS = ("pods", "PodMetrics", True), ("nodes", "NodeMetrics", False)


def metrics_definition(plural: str, kind: str, *, namespaced: bool) -> Document:
    """Return a kind that answers as metrics-server does."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1beta1", "served": True, "storage": True}
    approved = "api-approved.kubernetes.io"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.metrics.k8s.io",
            "annotations": {approved: "unapproved, for a test"},
        },
        "spec": {
            "group": "metrics.k8s.io",
            "names": {"plural": plural, "kind": kind, "singular": kind.lower()},
            "scope": "Namespaced" if namespaced else "Cluster",
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }


@pytest.fixture
def metrics(cluster: MarketCluster) -> Iterator[None]:
    """Serve metrics.k8s.io: what a pod of train and a node use."""
    group = "/apis/metrics.k8s.io/v1beta1"
    if cluster.read(group) is not None:
        pytest.skip("the cluster has a metrics server of its own, whose figures nobody knows")
    for plural, kind, namespaced in METRICS:
        definition = metrics_definition(plural, kind, namespaced=namespaced)
        cluster.api.request("POST", DEFINITIONS, definition)
    path = f"{group}/namespaces/cli-vision/pods"
    assert eventually(lambda: cluster.read(path) is not None and cluster.read(f"{group}/nodes"))
    head = {"apiVersion": "metrics.k8s.io/v1beta1"}
    usage = [{"name": each, "usage": {"cpu": "1250m", "memory": "1Gi"}} for each in "ab"]
    cluster.api.request(
        "POST",
        path,
        {**head, "kind": "PodMetrics", "metadata": {"name": "train-0"}, "containers": usage},
    )
    cluster.api.request(
        "POST",
        f"{group}/nodes",
        {
            **head,
            "kind": "NodeMetrics",
            "metadata": {"name": "cli-1"},
            "usage": {"cpu": "7", "memory": "8Gi"},
        },
    )
    yield
    for plural, *_ in METRICS:
        cluster.delete(f"{DEFINITIONS}/{plural}.metrics.k8s.io")
    assert eventually(lambda: cluster.read(path) is None)


def test_use_is_real_where_the_cluster_measures_it(metrics: None) -> None:
    found = told("top", "-A")
    assert found["notes"] == []
    jobs = {row["name"]: row for row in found["jobs"]}
    assert (jobs["train"]["used"], jobs["train"]["memoryUsed"]) == (2.5, 2 * 1024**3)
    assert jobs["render"]["used"] is None
    users = {row["name"]: row for row in found["users"]}
    assert users["engineering"]["cores"]["used"] == 2.5
    assert [row["used"] for row in found["nodes"]] == [7, None]


def test_without_a_metrics_server_it_is_said_what_is_missing(cluster: MarketCluster) -> None:
    notes = told("top")["notes"]
    assert any(
        "the cluster does not serve metrics.k8s.io; install metrics-server" in n for n in notes
    )


@pytest.fixture
def guest(cluster: MarketCluster, tmp_path: Path) -> Iterator[Path]:
    """Yield a kubeconfig of somebody who sees namespace cli-vision and all Entitlements."""
    yield from _somebody(
        cluster,
        tmp_path,
        cluster_rules=[rule("walras.dev", "entitlements")],
        rules=[
            rule("walras.dev", "marketjobs", "speedupprofiles"),
            rule("", "pods"),
            rule("metrics.k8s.io", "pods"),
        ],
    )


@pytest.fixture
def stranger(cluster: MarketCluster, tmp_path: Path) -> Iterator[Path]:
    """Yield a kubeconfig of somebody who sees nothing."""
    yield from _somebody(cluster, tmp_path, cluster_rules=[], rules=[], jobs=False)


def rule(group: str, *resources: str) -> Document:
    return {"apiGroups": [group], "resources": list(resources), "verbs": ["get", "list", "watch"]}


def _sees_jobs(kubeconfig: Path) -> bool:
    """Whether the API server knows of somebody's rights, which takes it a moment."""
    try:
        return bool(list(connect(Target(str(kubeconfig))).every(KINDS["MarketJob"], "cli-vision")))
    except ApiError:
        return False


def _somebody(
    made: MarketCluster,
    folder: Path,
    cluster_rules: list[Document],
    rules: list[Document],
    *,
    jobs: bool = True,
) -> Iterator[Path]:
    name, group = f"cli-{time.time_ns()}", "/apis/rbac.authorization.k8s.io/v1"
    inside = f"{group}/namespaces/cli-vision"
    accounts = "/api/v1/namespaces/cli-vision/serviceaccounts"
    made.api.request("POST", accounts, {"metadata": {"name": name}})
    subjects = [{"kind": "ServiceAccount", "name": name, "namespace": "cli-vision"}]
    paths = [f"{accounts}/{name}"]
    for prefix, kind, allowed in (
        (group, "ClusterRole", cluster_rules),
        (inside, "Role", rules),
    ):
        plural = f"{kind.lower()}s"
        made.api.request(
            "POST", f"{prefix}/{plural}", {"metadata": {"name": name}, "rules": allowed}
        )
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
        binding = {"metadata": {"name": name}, "subjects": subjects, "roleRef": reference}
        made.api.request("POST", f"{prefix}/{kind.lower()}bindings", binding)
        paths += [f"{prefix}/{plural}/{name}", f"{prefix}/{kind.lower()}bindings/{name}"]
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = made.api.request("POST", f"{accounts}/{name}/token", asked)["status"]["token"]
    config = yaml.safe_load(Path(KUBECONFIG).read_text())
    config["users"] = [{"name": "guest", "user": {"token": token}}]
    for each in config["contexts"]:
        each["context"] |= {"user": "guest", "namespace": "cli-vision"}
    file = folder / "guest.kubeconfig"
    file.write_text(yaml.safe_dump(config))
    if jobs:
        assert eventually(lambda: _sees_jobs(file))
    yield file
    for path in paths:
        made.delete(path)


def test_who_has_few_rights_sees_what_these_allow(cluster: MarketCluster, guest: Path) -> None:
    found = told("top", "--kubeconfig", str(guest))
    assert {row["name"] for row in found["jobs"]} == {"train", "render"}
    assert "vision-lab" in {row["name"] for row in found["users"]}
    (note,) = (each for each in found["notes"] if each.startswith("not shown"))
    for right in ("list nodes", "get markets.walras.dev", "list nodeallocations.walras.dev"):
        assert right in note
    explained = told("explain", "job", "train", "--kubeconfig", str(guest))
    assert explained["oneMore"][0]["instead"] is not None
    assert explained["budget"]["cores"] > 0
    refusal = run("what-if", "--kubeconfig", str(guest), code=1)
    assert "list nodes" in refusal
    assert "a dump" in refusal


def test_who_sees_one_namespace_sees_what_is_used_there(
    cluster: MarketCluster, guest: Path, metrics: None
) -> None:
    found = told("top", "--kubeconfig", str(guest))
    assert {row["name"]: row["used"] for row in found["jobs"]} == {"train": 2.5, "render": None}
    assert all(row["cores"]["used"] is None for row in found["users"])
    assert any("no right to list nodes.metrics.k8s.io" in note for note in found["notes"])


CHART_ROLES: dict[str, Document] = {
    "user": {"namespaces": ["cli-vision"], "entitlements": ["vision-lab"]},
    "lead": {"namespaces": ["cli-vision"], "entitlements": ["engineering"]},
    "admin": {},
}


@pytest.fixture
def member(
    cluster: MarketCluster, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Path]:
    """Yield a kubeconfig of somebody whose group the chart gives a role."""
    group = {"group": "system:serviceaccounts:cli-vision", "role": request.param}
    values = {"rbac": {"userGroups": [group | CHART_ROLES[request.param]]}}
    documents = rendered(values, apis=[POLICIES])
    rights, here, paths = "/apis/rbac.authorization.k8s.io/v1", "cli-vision", []
    wanted = {f"walras-{request.param}", "walras-user"}  # a lead is a user, too
    try:
        for kind, where in (
            ("ClusterRole", rights),
            ("ClusterRoleBinding", rights),
            ("RoleBinding", f"{rights}/namespaces/{here}"),
        ):
            for name, each in of_kind(kind, documents).items():
                elsewhere = each["metadata"].get("namespace", here) != here
                if elsewhere or not (name in wanted or name.startswith("walras-group-")):
                    continue
                cluster.api.request("POST", f"{where}/{kind.lower()}s", each)
                paths.append(f"{where}/{kind.lower()}s/{name}")
        yield from _somebody(cluster, tmp_path, cluster_rules=[], rules=[])
    finally:
        for path in paths:
            cluster.delete(path)


@pytest.mark.parametrize("member", ["user"], indirect=True)
def test_a_user_sees_its_own_share_and_jobs_and_is_told_what_is_left_out(
    cluster: MarketCluster, member: Path
) -> None:
    found = told("top", "--kubeconfig", str(member))
    assert {row["name"] for row in found["jobs"]} == {"train", "render"}
    (own,) = found["users"]
    assert own["name"] == "vision-lab"
    assert own["cores"]["entitled"] > 0
    assert own["creditsAboveMean"] is None
    assert found["nodes"] == []
    (note,) = (each for each in found["notes"] if each.startswith("not shown"))
    for right in ("list entitlements.walras.dev", "list nodes", "get markets.walras.dev"):
        assert right in note
    elsewhere = told("top", "jobs", "-A", "--kubeconfig", str(member))
    assert {row["namespace"] for row in elsewhere["jobs"]} == {"cli-vision"}
    (place,) = told("explain", "user", "vision-lab", "--kubeconfig", str(member))["places"]
    assert (place["shares"], place["of"]) == (3, None)
    assert told("explain", "job", "train", "--kubeconfig", str(member))["budget"]["cores"] > 0
    for kind, name, right in (
        ("user", "speech-lab", "list entitlements.walras.dev"),
        ("node", "cli-1", "list nodes"),
        ("job", "cli-speech/decode", "list marketjobs.walras.dev"),
    ):
        refusal = run("explain", kind, name, "--kubeconfig", str(member), code=1)
        assert f"you have no right to {right}" in refusal, (kind, refusal)


@pytest.mark.parametrize("member", ["lead"], indirect=True)
def test_a_lead_sees_the_tree_and_no_nodes(cluster: MarketCluster, member: Path) -> None:
    found = told("top", "--kubeconfig", str(member))
    assert {row["name"] for row in found["users"]} == {"engineering", "vision-lab", "speech-lab"}
    assert {row["name"] for row in found["jobs"]} == {"train", "render"}
    assert found["nodes"] == []
    assert any("list nodes" in each for each in found["notes"])
    places = told("explain", "user", "vision-lab", "--kubeconfig", str(member))["places"]
    assert [(each["shares"], each["of"]) for each in places] == [(3, 4), (2, 2)]


@pytest.mark.parametrize("member", ["admin"], indirect=True)
def test_an_administrator_of_the_market_sees_all_of_it(
    cluster: MarketCluster, member: Path
) -> None:
    found = told("top", "-A", "--kubeconfig", str(member))
    assert {row["name"] for row in found["jobs"]} >= {"train", "render", "decode", "lost"}
    assert {row["name"] for row in found["nodes"]} >= {"cli-1", "cli-2"}
    assert not [each for each in found["notes"] if each.startswith("not shown")]
    run("explain", "node", "cli-1", "--kubeconfig", str(member))
    run("what-if", "--kubeconfig", str(member))


def test_who_has_no_rights_is_told_which_are_needed(cluster: MarketCluster, stranger: Path) -> None:
    refusal = run("top", "--kubeconfig", str(stranger), code=1)
    assert "you have no right to" in refusal
    assert "list entitlements.walras.dev" in refusal
    assert len(refusal.splitlines()) == 1


MISTAKES = {
    "a namespace": (("top", "jobs", "-n", "nowhere"), "namespace nowhere does not exist"),
    "a context": (("top", "--context", "nowhere"), "has no context nowhere; choose one of"),
    "a file": (("top", "--kubeconfig", "/nowhere"), "/nowhere: the kubeconfig does not exist"),
    "a job": (("explain", "job", "trian", "-n", "cli-vision"), "did you mean cli-vision/train"),
    "a job of another namespace": (("explain", "job", "decode"), "did you mean cli-speech/decode?"),
    "a user": (("explain", "user", "vision"), "did you mean vision-lab?"),
    "a node": (("explain", "node", "cli-3"), "did you mean"),
}


@pytest.mark.parametrize(("arguments", "complaint"), MISTAKES.values(), ids=MISTAKES.keys())
def test_what_is_not_there_is_named_with_the_way_out(
    cluster: MarketCluster, arguments: tuple[str, ...], complaint: str
) -> None:
    said = run(*arguments, code=2)
    assert complaint in said
    assert len(said.splitlines()) == 1


def test_it_goes_on_until_ctrl_c(cluster: MarketCluster) -> None:
    with start("top", "users", "-w", "--interval", "0.5", KUBECONFIG=KUBECONFIG) as process:
        assert process.stdout is not None
        seen = 0
        for line in process.stdout:
            seen += "vision-lab" in line
            if seen == 2:
                process.send_signal(signal.SIGINT)
                break
        process.communicate()
    assert process.returncode == 0
    assert "--watch prints tables only" in run("top", "-w", "-o", "json", code=2)


def test_it_goes_on_while_the_api_server_is_away(cluster: MarketCluster) -> None:
    with start("top", "users", "-w", "--interval", "0.5", KUBECONFIG=KUBECONFIG) as process:
        assert process.stdout is not None
        state, pages = "shown", 0  # without a complaint below
        for line in process.stdout:
            if "retrying every 0.5 s" in line:
                pages = 0
                if state == "killed":
                    state = "complained"
                    start_server()
            elif "vision-lab" in line:
                pages += 1
                if state == "shown":
                    state = "killed"
                    kill_server()
                elif state == "complained" and pages == 2:
                    state = "shown again"
                    process.send_signal(signal.SIGINT)
                    break
        process.communicate()
    assert (state, process.returncode) == ("shown again", 0)


def test_kubectl_finds_it_and_completes_it(cluster: MarketCluster, tmp_path: Path) -> None:
    """Programs beside kubectl, named as kubectl looks for them, are what pip installs."""
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    scripts = {name: each for name, each in project["scripts"].items() if "kubectl" in name}
    assert set(scripts) == {"kubectl-walras", "kubectl_complete-walras"}
    for name, function in scripts.items():
        module, _, called = function.partition(":")
        script = tmp_path / name
        script.write_text(f"#!{sys.executable}\nfrom {module} import {called}\n{called}()\n")
        script.chmod(0o755)
    kubectl = str(clients() / "kubectl")
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}

    def by_kubectl(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [kubectl, *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)

    done = by_kubectl("walras", "top", "users", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["users"]
    assert by_kubectl("walras", "explain", "user", "x").stderr.startswith(
        "kubectl walras: Entitlement x does not exist"
    )
    lines = by_kubectl("__complete", "walras", "top", "no").stdout.splitlines()
    assert lines[0].split("\t")[0] == "nodes"


needs_mounts = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("unshare") is None,
    reason="puts files where a pod has them, in a mount namespace; be root",
)


@needs_mounts
def test_a_pod_needs_no_kubeconfig(cluster: MarketCluster, guest: Path, tmp_path: Path) -> None:
    config = yaml.safe_load(guest.read_text())
    there = config["clusters"][0]["cluster"]
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    (folder / "token").write_text(config["users"][0]["user"]["token"])
    shutil.copy(there["certificate-authority"], folder / "ca.crt")
    (folder / "namespace").write_text("cli-vision")
    host, _, port = there["server"].removeprefix("https://").rpartition(":")
    place = "/var/run/secrets/kubernetes.io/serviceaccount"
    script = (
        f"mount -t tmpfs none /var/run && mkdir -p {place} && "
        f"mount --bind {folder} {place} && exec {sys.executable} -m walras_cli top jobs -o json"
    )
    environment = {
        **os.environ, "HOME": str(tmp_path), "KUBERNETES_SERVICE_HOST": host,
        "KUBERNETES_SERVICE_PORT": port,
    }  # fmt: skip
    del environment["KUBECONFIG"]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert {row["name"] for row in json.loads(done.stdout)["jobs"]} == {"train", "render"}


def test_an_operator_that_does_not_run_is_told_of_above_all(cluster: MarketCluster) -> None:
    """The last test of this cluster: nothing is decided any more."""
    cluster.stop_operator()
    assert "the operator is not running" in told("top")["warnings"][0]
    cluster.forget_operators()
    assert "the operator has never run in this cluster" in told("top")["warnings"][0]
    cluster.delete(f"{OURS}/markets/default")
    assert "there is no Market named default" in told("top")["warnings"][1]
    assert "the cluster has no valid Market named default" in run("what-if", code=2)


def test_a_cluster_without_walras_is_told_of(cluster: MarketCluster) -> None:
    """And even the last one: with the definition all Entitlements go."""
    name = f"{DEFINITIONS}/entitlements.walras.dev"
    definition = cluster.read(name) or {}
    cluster.delete(name)
    assert eventually(lambda: cluster.read(f"{OURS}/entitlements") is None)
    try:
        assert "install the CustomResourceDefinitions of Walras" in run("top", code=1)
    finally:
        made = {key: definition[key] for key in ("apiVersion", "kind", "spec")}
        made["metadata"] = {"name": definition["metadata"]["name"]}
        assert eventually(lambda: cluster.read(name) is None)
        cluster.api.request("POST", DEFINITIONS, made)
        assert eventually(lambda: cluster.read(f"{OURS}/entitlements") is not None)
