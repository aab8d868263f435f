"""`walras what-if` on documents as kubectl prints them: tables, JSON, comparison, refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import pytest
import yaml

import worlds
from command_line import walras_here as walras
from walras.market.snapshot import CoreMechanism

if TYPE_CHECKING:
    from collections.abc import Callable

EXAMPLES = Path(__file__).parents[2] / "examples"
CLUSTER = EXAMPLES / "what-if/cluster.yaml"


def result_of(*arguments: str) -> dict[str, Any]:
    done = walras("what-if", "-o", "json", *arguments)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def items() -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = yaml.safe_load(CLUSTER.read_text())["items"]
    return loaded


def written(path: Path, documents: list[dict[str, Any]]) -> str:
    file = path / "cluster.yaml"
    file.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": documents}))
    return str(file)


def test_users_stand_beside_what_their_requests_alone_would_give(tmp_path: Path) -> None:
    """On one node of eight cores, requests of 3 : 1 give 6 : 2 cores, whatever the shares."""
    made = [worlds.node("n", "8"), worlds.entitlement("a"), worlds.entitlement("b")]
    for name, cpu in (("a", "3"), ("b", "1")):
        made += [worlds.job(name, name), worlds.pod(f"{name}-0", name, "n", cpu=cpu)]
    file = written(tmp_path, made)
    found = result_of("-f", file)
    plain = {each["name"]: each["held"] for each in found["plain"]["users"]}
    assert plain == {"a": pytest.approx(6), "b": pytest.approx(2)}
    said = walras("what-if", "-f", file).stdout.partition("plain Kubernetes")[2]
    row = next(line.split() for line in said.splitlines() if line.split()[:1] == ["b"])
    assert row[1:3] == ["2.00", "4.00"]
    assert row[3:] == ["1.818", "3.077", "+69.2%"]


def test_the_example_gives_the_papers_numbers() -> None:
    """Section V-B of the Amdahl paper; prices are in cores, ten times the paper's."""
    result = result_of("-f", str(CLUSTER))
    assert result["mechanism"] == "AmdahlBidding"
    assert result["converged"]
    assert result["residual"] < 1e-6
    assert {job["name"]: job["bought"] for job in result["jobs"]} == pytest.approx(
        {"dedup": 1.3363738, "bodytrack": 8.6806897, "x264": 8.6636262, "raytrace": 1.3193103},
        abs=1e-5,
    )
    assert [node["price"] for node in result["nodes"]] == pytest.approx([1.0023234, 0.9976766])
    assert set(result["jobs"][0]) >= {
        "namespace",
        "name",
        "node",
        "bought",
        "held",
        "price",
        "spend",
        "reason",
    }
    for user in result["users"]:
        assert user["entitled"] == pytest.approx(10)
        assert user["utility"] > user["entitlementUtility"]
    assert result["solver"]
    assert result["iterations"] >= 1


def test_tables_fit_80_columns_and_reasons_are_sentences_below() -> None:
    lines = walras("what-if", "-f", str(CLUSTER)).stdout.splitlines()
    (reason,) = [number for number, line in enumerate(lines) if "alice/dedup (dedup-0): " in line]
    assert "gives a speedup of 1.15; so it holds 1.337 cores" in lines[reason]
    tables = [line for line in lines if ": " not in line]
    assert max(len(line.rstrip()) for line in tables) <= 80
    assert reason > lines.index(next(line for line in lines if line.startswith("Jobs")))


def test_all_mechanisms_stand_side_by_side() -> None:
    result = result_of("-f", str(CLUSTER), "--mechanism", "all")
    plans = [result, *result["alternatives"]]
    assert [plan["mechanism"] for plan in plans] == list(get_args(CoreMechanism))
    progress = {plan["mechanism"]: plan["scores"]["systemProgress"] for plan in plans}
    assert max(progress.values()) == progress["UpperBound"]
    assert progress["ProportionalSharing"] < progress["AmdahlBidding"]
    for plan in plans:
        assert plan["converged"], plan["mechanism"]
        assert sum(job["held"] for job in plan["jobs"]) <= 20 + 1e-9
        assert 0 < plan["scores"]["uniformity"] <= 1
        assert 0 < plan["scores"]["envyFreeness"] <= 1
    done = walras("what-if", "-f", str(CLUSTER), "-m", "all")
    assert done.returncode == 0
    for word in ("alice", "Anticipating", "Greedy", "system progress", "envy-freeness", "MAPE"):
        assert word in done.stdout


@pytest.mark.parametrize("mechanism", ["Karma", "MaxMin", "Strict", "Auction"])
def test_memory_is_divided_too(mechanism: str) -> None:
    result = result_of("-f", str(CLUSTER), "--memory", mechanism)
    assert result["memory"]["mechanism"] == mechanism
    gib = 1024**3
    for node in ("node-1", "node-2"):
        here = [job["memory"] for job in result["jobs"] if job["node"] == node]
        assert 0 < sum(here) <= 32 * gib
    granted = {user["name"]: user["granted"] for user in result["memory"]["users"]}
    for name, amount in granted.items():
        mine = [job["memory"] for job in result["jobs"] if job["entitlement"] == name]
        assert sum(mine) == amount
    assert ("ledger" in result) == (mechanism == "Karma")


def test_waiting_pods_are_placed_in_pairs(tmp_path: Path) -> None:
    documents = items()
    for each in documents:
        if each["kind"] == "Pod":
            del each["spec"]["nodeName"]
            each["spec"]["schedulingGates"] = [{"name": "walras.dev/colocation"}]
    file = written(tmp_path, documents)
    refused = result_of("-f", file)["refused"]
    assert len(refused) == 4
    assert "colocation.policy is None" in refused[0]["reason"]
    result = result_of("-f", file, "--colocation", "StableRoommates")
    assert [len(pair["jobs"]) for pair in result["pairings"]] == [2, 2]
    assert {pair["node"] for pair in result["pairings"]} == {"node-1", "node-2"}
    assert len(result["jobs"]) == 4


def test_standard_input_and_positional_files_are_read() -> None:
    done = walras("what-if", "-f", "-", "-o", "yaml", stdin=CLUSTER.read_text())
    assert yaml.safe_load(done.stdout) == result_of(str(CLUSTER))


def test_the_documents_of_a_local_run_are_cleared_on_as_many_cores_as_said() -> None:
    market = str(EXAMPLES / "one-machine/market.yaml")
    result = result_of("-f", market, "--cores", "16")
    assert {job["node"] for job in result["jobs"]} == {"localhost"}
    assert sum(job["held"] for job in result["jobs"]) == pytest.approx(16)
    (note,) = result["notes"]
    assert "speedup is not known" in note


def only(*kinds: str) -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    return lambda documents: [each for each in documents if each["kind"] in kinds]


def with_field(kind: str, field: str, value: Any) -> Any:
    def change(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for each in documents:
            if each["kind"] == kind:
                each["spec"][field] = value
        return documents

    return change


REFUSALS = {
    "no jobs": (only("Node", "Entitlement"), "the cluster has no pods of users"),
    "no nodes": (only("MarketJob", "Entitlement"), "contains no Node, so it changes a live"),
    "a bad field": (
        with_field("MarketJob", "parallelFraction", "2"),
        'MarketJob alice/dedup: spec.parallelFraction: is "2"; it must be above 0 and at most 1',
    ),
    "slices of a byte": (
        lambda documents: [
            {**each, "spec": {**each["spec"], "memory": {"sliceSize": "1"}}}
            if each["kind"] == "Market"
            else {**each, "status": {"allocatable": {"cpu": "10", "memory": "8Ti"}}}
            if each["kind"] == "Node"
            else each
            for each in documents
        ],
        "spec.memory.sliceSize: capacities[0] = 8796093022208 is outside 0..2**40 - 1; larger",
    ),
    "no tree": (
        with_field("Entitlement", "parent", "nobody"),
        "Entitlement alice: spec.parent: Entitlement nobody does not exist; create it or correct",
    ),
    "a profile that is not there": (
        lambda documents: [
            {**each, "spec": {"profile": "gone", **each["spec"]} | {"parallelFraction": None}}
            if each["kind"] == "MarketJob"
            else each
            for each in documents
        ],
        "MarketJob alice/dedup: spec.profile: waits for SpeedupProfile alice/gone, which does not",
    ),
}


@pytest.mark.parametrize(("change", "complaint"), REFUSALS.values(), ids=REFUSALS.keys())
def test_what_cannot_be_cleared_is_refused_in_a_line(
    tmp_path: Path, change: Any, complaint: str
) -> None:
    file = written(tmp_path, change(items()))
    done = walras("what-if", "-f", file, KUBECONFIG="/nowhere.kubeconfig")
    assert done.returncode == 2
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert complaint in lines[0]
    assert all(line.startswith("walras: ") for line in lines)


def test_all_unusable_documents_are_named_at_once(tmp_path: Path) -> None:
    documents = items()
    alice = next(each for each in documents if each["metadata"]["name"] == "alice")
    alice["spec"]["parent"] = "alice"
    first, *_, last = (
        each
        for each in documents
        if each["kind"] == "MarketJob" and each["spec"]["entitlement"] != "alice"
    )
    first["spec"] |= {"profile": "gone", "parallelFraction": None}
    last["spec"]["selector"] = {"matchLabels": {}}
    done = walras("what-if", "-f", written(tmp_path, documents))
    assert done.returncode == 2
    for part in (": spec.profile: waits for", ": spec.selector: is empty", "is its own ancestor"):
        assert part in done.stderr


def test_a_missing_file_and_a_missing_cluster_are_named() -> None:
    done = walras("what-if", KUBECONFIG="/nowhere.kubeconfig")
    complaint = (
        "the kubeconfig does not exist; set --kubeconfig or KUBECONFIG; "
        "for a cluster in files, use -f FILE or --from FILE"
    )
    assert (done.returncode, done.stderr) == (2, f"walras: /nowhere.kubeconfig: {complaint}\n")
    done = walras("what-if", "-f", "/nowhere.yaml")
    assert (done.returncode, done.stderr) == (
        2,
        "walras: /nowhere.yaml: cannot be read: No such file or directory\n",
    )


def test_jobs_that_may_not_draw_are_refused_with_the_way_out(tmp_path: Path) -> None:
    documents = with_field("Entitlement", "namespaces", ["bob"])(items())
    done = walras("what-if", "-f", written(tmp_path, documents))
    assert done.returncode == 0
    assert "refused: alice/dedup: entitlement alice does not admit namespace alice" in (
        " ".join(done.stdout.split())
    )


def test_help_teaches() -> None:
    done = walras("what-if", "--help")
    for word in ("kubectl get", "--mechanism", "Examples:", "Exit codes:"):
        assert word in done.stdout


def test_it_tells_what_over_estimated_fractions_would_move() -> None:
    result = result_of("-f", str(CLUSTER), "--sensitivity")
    shifts = result["sensitivity"]
    assert [(each["user"], each["overestimate"]) for each in shifts] == [
        (user, part) for user in ("alice", "bob") for part in (0.05, 0.1, 0.15)
    ]
    assert all(0 < each["meanError"] <= each["largestError"] < 2 for each in shifts)
    assert "sensitivity" not in result_of("-f", str(CLUSTER))
    shown = walras("what-if", "-f", str(CLUSTER), "--sensitivity").stdout
    assert "If a user's F were overestimated" in shown
    refused = walras("what-if", "-f", str(CLUSTER), "--sensitivity", "-m", "all")
    assert refused.returncode == 2
    assert "--sensitivity needs one mechanism" in refused.stderr


def test_bids_have_a_table(tmp_path: Path) -> None:
    documents = items()
    for each in documents:
        if each["kind"] == "MarketJob":
            each["spec"]["auction"] = {"minimumUtility": "0.5"}
    file = written(tmp_path, documents)
    bids = {each["name"]: each for each in result_of("-f", file, "-m", "Auction")["bids"]}
    assert all(each["budget"] == 5 for each in bids.values())
    assert all(each["met"] and each["utility"] == 0.5 for each in bids.values())
    assert "met" in walras("what-if", "-f", file, "-m", "Auction").stdout


def test_what_a_job_cannot_use_is_promised_to_another(tmp_path: Path) -> None:
    """Dedup can use two of node-1's ten cores, so x264 can be promised three quarters."""
    documents = items()
    for each in documents:
        if each["kind"] == "MarketJob" and each["metadata"]["name"] == "dedup":
            each["spec"].update(maxCores=2, auction={"minimumUtility": "0.2"})
        if each["kind"] == "MarketJob" and each["metadata"]["name"] == "x264":
            each["spec"]["auction"] = {"minimumUtility": "0.75"}
    found = result_of("-f", written(tmp_path, documents), "-m", "Auction")
    bids = {each["name"]: each for each in found["bids"]}
    assert all(bids[name]["promised"] and bids[name]["met"] for name in ("dedup", "x264"))
    cores = {each["name"]: each["held"] for each in found["jobs"]}
    assert (cores["dedup"], cores["x264"]) == (2, 8)


def test_who_is_short_is_told_by_whom(tmp_path: Path) -> None:
    documents = list(yaml.safe_load_all(CLUSTER.read_text()))
    items = [item for each in documents for item in each.get("items", [each])]
    for item in items:
        if item["kind"] == "Pod" and item["metadata"]["namespace"] == "bob":
            (container,) = item["spec"]["containers"]
            container["resources"]["requests"]["cpu"] = "9"
    file = tmp_path / "greedy.yaml"
    file.write_text(yaml.safe_dump_all(items))
    found = json.loads(walras("what-if", "-f", str(file), "-o", "json").stdout)
    (note,) = (each for each in found["notes"] if each.startswith("Entitlement alice: "))
    assert "less done than with its share alone: requests of bob keep 4.00 cores of node-1" in note
