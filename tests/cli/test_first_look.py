"""`walras what-if` on clusters that have never heard of Walras: dumps of three distributions.

What plain Kubernetes gives is computed here by hand, from requests alone.
"""

from __future__ import annotations

import json
import re
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from answering import Answering, send
from command_line import walras_here as walras
from kubeconfigs import kubeconfig
from walras_cli.what_if.first_look.outlook import assumptions
from walras_cli.what_if.first_look.population import PodOfJob, Population

if TYPE_CHECKING:
    from collections.abc import Iterator
    from http.server import BaseHTTPRequestHandler

Document = dict[str, Any]

DUMPS = Path(__file__).parent / "dumps"
CASES = Path(__file__).parent / "first_look"
EXAMPLES = Path(__file__).parents[2] / "examples"


def looked(*arguments: str, stdin: str = "") -> Document:
    done = walras("what-if", *arguments, "-o", "json", stdin=stdin)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    found: Document = json.loads(done.stdout)
    return found


def refused(*arguments: str) -> str:
    done = walras("what-if", *arguments)
    assert done.returncode == 2, done.stdout
    return done.stderr


def users(page: Document) -> dict[str, Document]:
    return {each["name"]: each for each in page["users"]}


def cores(page: Document, when: str) -> dict[str, float]:
    return {each["name"]: each["cores"][when] for each in page["users"]}


def jobs(page: Document) -> dict[str, str]:
    return {f"{each['namespace']}/{each['name']}": each["kind"] for each in page["jobs"]}


def written(path: Path, *documents: Document) -> str:
    path.write_text(yaml.safe_dump_all(documents))
    return str(path)


def node(name: str = "n1", cpu: str = "8") -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": {"cpu": cpu}},
    }


def pod(namespace: str, name: str, cpu: str = "", place: str = "n1", limit: str = "") -> Document:
    amounts = {"requests": cpu, "limits": limit}
    resources = {key: {"cpu": each} for key, each in amounts.items() if each}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}"},
        "spec": {"nodeName": place, "containers": [{"name": "main", "resources": resources}]},
        "status": {"phase": "Running"},
    }


def test_kubeadm() -> None:
    page = looked("-f", str(DUMPS / "kubeadm.yaml"))
    # The control plane is tainted, and worker-3 is not ready. On the others, DaemonSets (also one
    # in a namespace that is not the system's) and CoreDNS keep 0.5 and 0.75 of 8 CPUs.
    assert page["nodes"] == 2
    assert page["cores"] == pytest.approx(7.5 + 7.25)
    assert jobs(page) == {
        "analytics/fit": "CronJob",
        "analytics/solve": "StatefulSet",
        "dev/shell": "Pod",
        "shop/checkout": "Deployment",
    }
    # Weights are 102 and 3072 of 1024 a CPU. BestEffort pods together weigh 2; solve has a limit.
    best_effort = 7.25 * 2 / (102 + 3072 + 2)
    fit = 7.5 * 3072 / (102 + 3072)
    today = {
        "analytics": fit + 4,
        "shop": (7.5 - fit) + (7.25 - best_effort - 4),
        "dev": best_effort,
    }
    assert cores(page, "today") == pytest.approx(today)
    third = {"analytics": 7.5 / 3 + 7.25 / 3, "shop": 7.5 / 3 + 7.25 / 3, "dev": 7.25 / 3}
    assert cores(page, "guarantee") == pytest.approx(third)
    assert users(page)["dev"]["starvingPods"] == {"today": 1, "market": 0}
    assert page["notes"] == [
        "nodes that are left out: worker-3 is not ready",
        "nodes that are left out, as they are tainted and run no pod of users: 1",
        "pods of the system and of DaemonSets, which keep what they request: 10",
        "pods on nodes that are left out, which are not counted: 1",
    ]


def test_k3s_with_teams_and_quotas() -> None:
    dump = str(DUMPS / "k3s.json")
    page = looked("-f", dump)
    assert set(users(page)) == {"ci", "default", "media"}
    assert page["cores"] == pytest.approx(3.9 + 4)
    # On the server, both pods weigh the same; on the agent, too.
    assert cores(page, "today") == pytest.approx({"ci": 1.95 + 2, "default": 2, "media": 1.95})
    teams = looked("-f", dump, "--users-by", "label:team", "--shares", "requests")
    assert cores(teams, "today") == pytest.approx({"web": 5.95, "home": 1.95})
    assert {name: user["part"] for name, user in users(teams).items()} == {
        "web": 0.75,
        "home": 0.25,
    }
    quotas = looked("-f", dump, "--shares", "quota")
    parts = {name: user["part"] for name, user in users(quotas).items()}
    assert parts == pytest.approx({"ci": 3 / 5, "media": 1.5 / 5, "default": 0.5 / 5})
    assert (
        "users without a quota of CPUs, whose shares are their requests: default"
        in (quotas["notes"])
    )


def test_eks_with_queues_of_kueue() -> None:
    dump = str(DUMPS / "eks.yaml")
    page = looked("-f", dump)
    room = {"a": 3.92 - 0.25, "b": 3.92 - 0.65}
    assert page["cores"] == pytest.approx(sum(room.values()))
    assert jobs(page) == {
        "speech/decode": "RayCluster",
        "vision/train-0": "Job",
        "vision/train-1": "Job",
        "web/front": "Deployment",
    }
    # train-0 is Guaranteed, and limited to a CPU; decode requests two as a whole pod.
    train, front = 1024, 204
    today = {
        "vision": 1 + room["b"] * train / (train + front),
        "speech": room["a"] - 1,
        "web": room["b"] * front / (train + front),
    }
    assert cores(page, "today") == pytest.approx(today)
    assert "pods that wait for a node, which are left out: 1" in page["notes"]
    queues = looked("-f", dump, "--users-by", "kueue", "--shares", "quota")
    # speech has no label of a queue, but its namespace has one queue only; web has none.
    assert {name: user["pods"] for name, user in users(queues).items()} == {"research": 3, "web": 1}
    assert users(queues)["research"]["part"] == pytest.approx(3 / 3.2)


@pytest.mark.parametrize("name", ["kubeadm.yaml", "k3s.json", "eks.yaml"])
def test_nothing_is_divided_twice_and_requests_are_kept(name: str) -> None:
    page = looked("-f", str(DUMPS / name))
    for when in ("today", "guarantee"):
        assert sum(cores(page, when).values()) <= page["cores"] + 1e-9
    least = {each["name"]: each["cores"]["market"]["least"] for each in page["users"]}
    assert sum(least.values()) <= page["cores"] + 1e-9
    for job in page["jobs"]:
        assert job["cores"]["market"]["least"] > job["requested"] - 0.01
    lent = {(each["lender"], each["borrower"]) for each in page["loans"]}
    assert not lent & {(borrower, lender) for lender, borrower in lent}
    assert len(page["next"]) == 3


def test_ranges_hold_whatever_two_users_gain_from_cores(tmp_path: Path) -> None:
    dump = str(DUMPS / "eks.yaml")
    page = users(looked("-f", dump))
    for fraction in (0.5, 0.9, 0.99):
        _check(page, dump, tmp_path, dict.fromkeys(page, fraction))
    for one, other in permutations(page, 2):
        ranges = [_within(page, dump, tmp_path, one, other, third) for third in (0.5, 0.99)]
        assert any(ranges)


@pytest.mark.parametrize("users", [1, 2, 3, 4, 7, 20, 21])
def test_of_any_two_users_each_gains_little_where_the_other_gains_much(users: int) -> None:
    pods = tuple(
        PodOfJob("a", str(each), each, each, 0, 1.0, 1.0, None, "Burstable", None)
        for each in range(users)
    )
    names = tuple(map(str, range(users)))
    found = [
        each.tolist() for each in assumptions(Population(names, (1,) * users, (), (), pods, ()))
    ]
    assert found[:3] == [[each] * users for each in (0.5, 0.9, 0.99)]
    pairs = {(low, high) for low in range(users) for high in range(users) if low != high}
    assert pairs == {
        (low, high)
        for each in found
        for low, high in pairs
        if (each[low], each[high]) == (0.5, 0.99)
    }
    assert len(found) - 3 == {1: 0, 2: 2, 3: 3, 4: 4, 7: 5, 20: 6, 21: 7}[users]


def _within(
    page: dict[str, Document], dump: str, folder: Path, low: str, high: str, third: float
) -> bool:
    """Return whether figures are within their ranges where one user gains little, another much."""
    try:
        _check(page, dump, folder, {**dict.fromkeys(page, third), low: 0.5, high: 0.99})
    except AssertionError:
        return False
    return True


def _check(page: dict[str, Document], dump: str, folder: Path, known: dict[str, float]) -> None:
    file = folder / "speedups.yaml"
    file.write_text("".join(f"{name}: {each}\n" for name, each in known.items()))
    exact = looked("-f", dump, "--speedups", str(file))
    assert exact["fractions"]["assumptions"] == 1
    assert exact["fractions"]["knownJobs"] == 4
    for name, user in users(exact).items():
        held, told = user["cores"]["market"], page[name]["cores"]["market"]
        assert held["least"] == held["most"]
        assert told["least"] - 1e-6 <= held["least"] <= told["most"] + 1e-6
        gain, range_ = user["gain"], page[name]["gain"]
        if range_ is not None:
            assert range_["least"] - 1e-6 <= gain["least"] <= range_["most"] + 1e-6


def test_a_gain_whose_sign_depends_on_what_is_unknown_is_no_number(tmp_path: Path) -> None:
    """What b has to pay for n1 depends on whether a would rather have cores of n2."""
    dump = written(
        tmp_path / "dump.yaml",
        *(node("n1", "6"), node("n2", "12")),
        *(pod("a", "x", "500m", "n1"), pod("a", "y", "500m", "n2")),
        *(pod("b", "z", "1", "n1"), pod("c", "w", "3", "n2")),
    )
    gains = []
    for b, others in ((0.5, 0.99), (0.99, 0.5)):
        file = tmp_path / "speedups.yaml"
        file.write_text(f"a: {others}\nb: {b}\nc: {others}\n")
        page = users(looked("-f", dump, "--speedups", str(file)))
        gains.append(page["b"]["gain"]["least"])
    assert min(gains) < -0.005 < 0.005 < max(gains)
    page = users(looked("-f", dump))
    assert page["b"]["gain"] is None
    assert page["a"]["gain"]["least"] > 0
    assert page["c"]["gain"]["most"] < 0
    text = walras("what-if", "-f", dump).stdout
    assert "3 users with Walras, compared with today: 1 faster, 1 slower, 1 unknown." in text
    [row] = [line for line in text.splitlines() if re.match("b +1 ", line)]
    assert "unknown" in row
    [sentence] = [line for line in text.splitlines() if line.startswith("- b/z ")]
    assert sentence.endswith("faster or slower: that depends on F")


def lines_on_a_screen(text: str, columns: int) -> int:
    return sum(max(1, -(-len(line.rstrip()) // columns)) for line in text.splitlines())


@pytest.mark.parametrize("name", ["eks.yaml", "k3s.json", "kubeadm.yaml"])
def test_one_screen(name: str) -> None:
    text = walras("what-if", "-f", str(DUMPS / name), COLUMNS="80").stdout
    assert lines_on_a_screen(text, 100) <= 36


def test_one_screen_of_a_cluster_with_more_users_than_fit(tmp_path: Path) -> None:
    names = [f"team-{each}" for each in range(20)]
    pods = [pod(name, "app", str(1 + (number % 3))) for number, name in enumerate(names)]
    text = walras("what-if", "-f", written(tmp_path / "dump.yaml", node("n1", "64"), *pods)).stdout
    assert "and 12 more; -o json lists all" in text
    assert text.count("\n- ") == 10
    assert lines_on_a_screen(text, 100) <= 40


def test_what_the_screen_says() -> None:
    lines = walras("what-if", "-f", str(DUMPS / "kubeadm.yaml"), COLUMNS="80").stdout.splitlines()
    text = "\n".join(lines)
    assert "3 users with Walras, compared with today: 2 faster, 1 slower." in lines
    assert lines[0].startswith("Worst case: no use of CPUs is known")
    assert (
        "analytics would be slower, and keeps its guarantee: what its share of its nodes gets "
        "done, 4.9 CPUs." in lines
    )
    assert (
        "Pods that starve if all are busy at once, with less than 0.1 of a CPU: 1 today, 0 with "
        "Walras." in lines
    )
    assert "shop lends 0.6 CPUs of its guarantee to analytics" in lines
    assert "- analytics/fit (CronJob, requests 3): 7.3 CPUs today, 3.0 with Walras, 15 to" in text
    assert "0.0 CPUs today (starving), 2.6 to 4.0 with Walras\n" in text
    assert "- shop/checkout (Deployment, 2 pods, requests 0.2): " in text
    [head] = [line for line in lines if line.startswith("user ")]
    shown = ["today", "Walras", "Walras", "today", "Walras"]
    assert head.split() == ["user", "pods", "guarantee", *shown]


def test_nobody_is_said_to_lend_what_it_cannot_reach() -> None:
    """b has one pod, on a node that three users share, and a has two nodes alone."""
    page = looked("-f", str(CASES / "share-not-reached.json"))
    assert cores(page, "guarantee") == pytest.approx({"a": 2 * 4, "b": 4, "c": 4, "d": 4})
    assert page["loans"] == []
    assert all(each["keepsGuarantee"] for each in page["users"])
    text = walras("what-if", "-f", str(CASES / "share-not-reached.json")).stdout
    assert "lends" not in text
    assert "b would be slower, and keeps its guarantee" in text
    assert "%" not in next(line for line in text.splitlines() if re.match("d +1 ", line))


def test_who_is_below_its_guarantee_is_told_whose_requests_are_kept(tmp_path: Path) -> None:
    """On n1 the share of each is 4: a requests 6, for which it gives up cores of n2."""
    dump = written(
        tmp_path / "dump.yaml",
        *(node("n1", "8"), pod("a", "x", "6"), pod("b", "y")),
        *(node("n2", "8"), pod("b", "z", "1", "n2"), pod("a", "w", "1", "n2")),
        *(pod("b", "v", "1", "n2"), pod("b", "u", "1", "n2")),
    )
    page = users(looked("-f", dump))
    assert not page["a"]["keepsGuarantee"]
    assert page["a"]["requestsBeyondShares"] == ["its own pods"]
    assert page["b"]["requestsBeyondShares"] == ["others' pods"]
    assert page["b"]["keepsGuarantee"]
    assert (
        "a would be slower, below its guarantee of 8.0 CPUs: requests of its own pods, beyond a "
        "share, are kept." in walras("what-if", "-f", dump).stdout.splitlines()
    )


def test_the_page_in_the_documentation_is_what_is_printed() -> None:
    page = (Path(__file__).parents[2] / "docs/what-if.md").read_text()
    [shown] = re.findall(
        r"```console\n\$ kubectl [^\n]* \| walras what-if -f -\n(.*?)```", page, re.DOTALL
    )
    text = (DUMPS / "kubeadm.yaml").read_text()
    printed = walras("what-if", "-f", "-", stdin=text).stdout.splitlines()
    assert [line.rstrip() for line in printed][: shown.count("\n")] == shown.splitlines()


def test_what_is_given_on_standard_input_in_any_order_and_twice() -> None:
    text = (DUMPS / "eks.yaml").read_text()
    nodes, pods, rest = text.split("---\n")
    once, other = looked("-f", "-", stdin=text), looked("-f", "-", stdin=f"{pods}---\n{nodes}")
    assert once["users"] == other["users"]
    twice = looked("-f", "-", stdin=f"{rest}---\n{pods}---\n{nodes}---\n{pods}")
    assert twice["users"] == once["users"]
    in_json = "\n".join(json.dumps(yaml.safe_load(each)) for each in (nodes, pods))
    assert looked("-f", "-", stdin=in_json)["users"] == once["users"]


@pytest.mark.system
def test_use_that_is_known_leaves_idle_time_to_others(tmp_path: Path) -> None:
    dump = written(
        tmp_path / "dump.yaml", node("n1", "8"), pod("a", "idle", "4"), pod("b", "busy", "1")
    )
    assert cores(looked("-f", dump), "today") == pytest.approx({"a": 6.4, "b": 1.6})
    with _Prometheus({("a", "idle"): 0.5, ("b", "busy"): 1.5}) as prometheus:
        page = looked("-f", dump, "--prometheus", prometheus.url)
    assert (page["podsWithKnownUse"], page["useFrom"]) == (2, "Prometheus")
    assert cores(page, "today") == pytest.approx({"a": 0.5, "b": 7.5})
    assert (
        'namespace, pod) (rate(container_cpu_usage_seconds_total{container!=""'
        in (prometheus.asked[0])
    )


@pytest.mark.system
def test_use_that_is_known_makes_requests_that_fit_it(tmp_path: Path) -> None:
    dump = written(
        tmp_path / "dump.yaml", node("n1", "8"), pod("a", "idle", "4"), pod("b", "busy", "1")
    )
    with _Prometheus({("a", "idle"): 0.5, ("b", "busy"): 1.5}) as prometheus:
        page = looked("-f", dump, "--prometheus", prometheus.url, "--requests")
    requests = {each["name"]: each for each in page["requests"]}
    assert requests["idle"]["request"] == pytest.approx(0.5, abs=0.08)
    assert requests["busy"]["request"] == pytest.approx(1.73)
    assert (requests["busy"]["fitNow"], requests["busy"]["fitThen"]) == (3, 3)


def test_use_that_lies_in_the_file_is_read() -> None:
    """a uses 0.2 of 16 CPUs and requests 8, b uses 15 and requests 1."""
    file = str(CASES / "use-in-the-file.json")
    page = looked("-f", file)
    assert (page["podsWithKnownUse"], page["useFrom"]) == (2, "PodMetrics")
    assert cores(page, "today") == pytest.approx({"a": 0.2, "b": 15.8})
    for name, user in users(page).items():
        market = user["cores"]["market"]
        assert (market["least"], market["most"]) == pytest.approx((cores(page, "today")[name],) * 2)
        assert (user["gain"]["least"], user["gain"]["most"]) == pytest.approx((0, 0))
    lines = walras("what-if", "-f", file).stdout.splitlines()
    assert lines[0] == "The use of all 2 pods is known, from PodMetrics."
    assert "2 users with Walras, compared with today: 2 as fast." in lines


def test_use_that_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    documents = json.loads((CASES / "use-in-the-file.json").read_text())["items"]
    documents[-1]["containers"][0]["usage"]["cpu"] = "much"
    documents[-2]["containers"] = "none"
    page = looked("-f", written(tmp_path / "dump.yaml", *documents))
    assert page["podsWithKnownUse"] == 0


def test_use_of_some_pods_is_said_to_be_that_of_some(tmp_path: Path) -> None:
    document = json.loads((CASES / "use-in-the-file.json").read_text())
    document["items"].pop()
    dump = tmp_path / "dump.json"
    dump.write_text(json.dumps(document))
    first = walras("what-if", "-f", str(dump)).stdout.splitlines()[0]
    assert first == ("The use of 1 of 2 pods is known, from PodMetrics; the others count as busy.")


def test_what_idle_pods_leave_is_used_by_their_user_first_and_then_by_others(
    tmp_path: Path,
) -> None:
    used = {("a", "idle"): "1", ("a", "busy"): "9", ("b", "busy"): "9"}
    metrics = [
        {
            "apiVersion": "metrics.k8s.io/v1beta1",
            "kind": "PodMetrics",
            "metadata": {"namespace": namespace, "name": name},
            "containers": [{"name": "main", "usage": {"cpu": cpu}}],
        }
        for (namespace, name), cpu in used.items()
    ]
    pods = [pod(namespace, name, "2", limit="") for namespace, name in used]
    dump = written(tmp_path / "dump.yaml", node("n1", "16"), *pods, *metrics)
    page = looked("-f", dump)
    # Each user's half of the node stays its own while it can use it, but for cores that would
    # gain a program next to nothing if it is mostly serial.
    held = {name: user["cores"]["market"] for name, user in users(page).items()}
    assert held["a"]["least"] == pytest.approx(8, abs=0.2)
    assert held["b"]["most"] == pytest.approx(8, abs=0.2)
    for each in metrics[1:2]:
        each["containers"] = [{"name": "main", "usage": {"cpu": "0.5"}}]
    dump = written(tmp_path / "dump.yaml", node("n1", "16"), *pods, *metrics)
    held = {name: user["cores"]["market"] for name, user in users(looked("-f", dump)).items()}
    assert held["a"]["most"] == pytest.approx(1.5)
    assert held["b"]["least"] == pytest.approx(14.5)


def test_cores_are_counted_where_all_nodes_report_them(tmp_path: Path) -> None:
    """A CPU of n1 is half a core."""
    report = {"cpus": "0-7", "cores": 4, "threads": 8, "sockets": 1}
    allocation = {
        "apiVersion": "walras.dev/v1alpha1",
        "kind": "NodeAllocation",
        "metadata": {"name": "n1"},
        "spec": {"epoch": 1},
        "status": {"topology": report},
    }
    documents = [node("n1", "8"), pod("a", "x", "2", limit="3"), pod("b", "y", "1"), allocation]
    page = looked("-f", written(tmp_path / "dump.yaml", *documents))
    assert (page["unit"], page["cores"]) == ("core", 4)
    assert cores(page, "today") == pytest.approx({"a": 1.5, "b": 2.5})
    assert sorted(each["requested"] for each in page["jobs"]) == [0.5, 1]
    page = looked("-f", written(tmp_path / "dump.yaml", *documents, node("n2", "2")))
    assert (page["unit"], page["cores"]) == ("CPU", 10)


class _Prometheus(Answering):
    """A Prometheus that knows the CPUs that pods use."""

    def __init__(self, used: dict[tuple[str, str], float]) -> None:
        self.used, self.asked = used, list[str]()
        super().__init__()

    def respond(self, request: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(request.path)
        assert parts.path == "/api/v1/query"
        self.asked += parse_qs(parts.query)["query"]
        result = [
            {"metric": {"namespace": namespace, "pod": name}, "value": [1_764_000_000, str(cpus)]}
            for (namespace, name), cpus in self.used.items()
        ]
        send(
            request, 200, {"status": "success", "data": {"resultType": "vector", "result": result}}
        )

    def __enter__(self) -> _Prometheus:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Cluster(Answering):
    """An API server that has never heard of Walras, Kueue or metrics."""

    def __init__(self, documents: list[Document]) -> None:
        self.documents = documents
        super().__init__()

    def respond(self, request: BaseHTTPRequestHandler) -> None:
        path = urlsplit(request.path).path
        kind = {"nodes": "Node", "pods": "Pod", "namespaces": "Namespace"}.get(path[8:])
        kind = "ResourceQuota" if path.endswith("/resourcequotas") else kind
        if not path.startswith("/api/v1/") or kind is None:
            send(request, 404, {"kind": "Status", "code": 404, "message": "not found"})
            return
        found = [each for each in self.documents if each["kind"] == kind]
        bare = [
            {k: v for k, v in each.items() if k not in {"kind", "apiVersion"}} for each in found
        ]
        send(request, 200, {"kind": f"{kind}List", "metadata": {}, "items": bare})


@pytest.fixture
def bare_cluster() -> Iterator[_Cluster]:
    made = _Cluster(json.loads((DUMPS / "k3s.json").read_text())["items"])
    yield made
    made.close()


@pytest.mark.system
def test_a_live_cluster_without_walras(bare_cluster: _Cluster, tmp_path: Path) -> None:
    config = str(kubeconfig(tmp_path / "config", bare_cluster.url))
    live = looked("--kubeconfig", config, "--shares", "quota")
    dump = looked("-f", str(DUMPS / "k3s.json"), "--shares", "quota")
    assert live["users"] == dump["users"]
    assert live["next"][0] == "walras what-if --shares equal    # other shares"
    assert any("metrics-server" in note for note in live["notes"])
    done = walras("what-if", "--kubeconfig", config, "-m", "Greedy")
    assert done.returncode == 2
    assert "Walras is not installed in this cluster; install it" in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--users-by", "label"], "--users-by label: write namespace, kueue, label:KEY or"),
        (["--users-by", "team:a"], "--users-by team:a: write namespace"),
        (["--users-by", "label:app", "--shares", "quota"], "no user has a quota of CPUs"),
        (["--speedups", "/nowhere"], "--speedups /nowhere: cannot be read: No such file"),
        (["-m", "Greedy"], "contains no MarketJob"),
        (["--cores", "8"], "contains no MarketJob"),
    ],
)
def test_wrong_options_are_told(options: list[str], message: str) -> None:
    assert message in refused("-f", str(DUMPS / "kubeadm.yaml"), *options)


@pytest.mark.parametrize("framework", ["cronjob", "job", "jobset", "mpijob", "workflow"])
def test_a_labelled_workload_without_pods_is_told_what_to_do_next(framework: str) -> None:
    message = refused("-f", str(EXAMPLES / f"frameworks/{framework}.yaml"), "--cores", "8")
    assert "no pod with the label walras.dev/job" in message
    assert "start the labelled workload and run `kubectl get nodes,pods,ns -A -o yaml | " in message


@pytest.mark.parametrize("text", ["a: 2", "a: x", "- a", "a: [", "", "a: {b: 1}"])
def test_wrong_speedups_are_told(text: str, tmp_path: Path) -> None:
    file = tmp_path / "speedups.yaml"
    file.write_text(text)
    assert f"--speedups {file}: " in refused("-f", str(DUMPS / "k3s.json"), "--speedups", str(file))


def test_options_about_users_are_refused_where_entitlements_say_it() -> None:
    message = refused("-f", str(EXAMPLES / "what-if/cluster.yaml"), "--shares", "equal")
    assert "are for clusters without MarketJobs, and this one has some" in message


def test_a_dump_without_pods_of_users_is_told(tmp_path: Path) -> None:
    dump = written(tmp_path / "dump.yaml", node(), pod("kube-system", "dns", "1"))
    assert "the cluster has no pods of users" in refused("-f", dump)


def test_labels_rule(tmp_path: Path) -> None:
    """A labelled pod takes part as the operator would have it: as a job of a MarketJob."""
    labelled = pod("lab", "train-abc", "1")
    labelled["metadata"]["labels"] = {"walras.dev/job": "", "pod-template-hash": "abc"}
    labelled["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "train-abc", "uid": "1"}
    ]
    entitlement = {
        "apiVersion": "walras.dev/v1alpha1",
        "kind": "Entitlement",
        "metadata": {"name": "lab"},
        "spec": {"shares": 1, "namespaces": ["lab"]},
    }
    dump = written(tmp_path / "dump.yaml", node(), labelled, pod("lab", "other", "2"), entitlement)
    page = looked("-f", dump)
    assert page["mechanism"] == "AmdahlBidding"
    [job] = page["jobs"]
    assert (job["namespace"], job["name"], job["pod"]) == ("lab", "train", "train-abc")
    assert job["held"] == pytest.approx(6)


def test_profiles_tell_speedups(tmp_path: Path) -> None:
    profile = {
        "apiVersion": "walras.dev/v1alpha1",
        "kind": "SpeedupProfile",
        "metadata": {"name": "x", "namespace": "a"},
        "spec": {"parallelFraction": "0.7"},
    }
    dump = written(tmp_path / "dump.yaml", node(), pod("a", "x", "1"), pod("b", "y", "1"), profile)
    assert looked("-f", dump)["fractions"]["knownJobs"] == 1
