"""Documents of all kinds: some that are right, and for each way to be wrong one that is.

They are put to the models, to the CustomResourceDefinitions, and to a real API server.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

EXAMPLES = Path(__file__).parents[2] / "crds" / "examples"

Document = dict[str, Any]


def example_documents() -> list[Document]:
    """Return all documents of crds/examples."""
    texts = [path.read_text() for path in sorted(EXAMPLES.glob("*.yaml"))]
    return [document for text in texts for document in yaml.safe_load_all(text)]


def document(kind: str, **spec: Any) -> Document:
    """Return a document of a kind: what its spec needs, and what is given; None leaves out."""
    least: dict[str, Document] = {
        "Entitlement": {"shares": 1},
        "MarketJob": {"entitlement": "a", "selector": {"matchLabels": {"app": "a"}}},
        "SpeedupProfile": {},
        "NodeAllocation": {"epoch": 7},
        "Market": {},
    }
    filled = {key: value for key, value in {**least[kind], **spec}.items() if value is not None}
    metadata = {"name": "crds-test"}
    if kind in {"MarketJob", "SpeedupProfile"}:
        metadata["namespace"] = "default"
    return {
        "apiVersion": "walras.dev/v1alpha1",
        "kind": kind,
        "metadata": metadata,
        "spec": filled,
    }


def grant(pod: str = "u-1", **fields: Any) -> Document:
    """Return a grant of a NodeAllocation."""
    return {"podUID": pod, "name": "p", "cores": "1", **fields}


def measurement(**fields: Any) -> Document:
    """Return a measurement of a SpeedupProfile."""
    return {"cores": 1, "seconds": ["1.5"], **fields}


def asked(**fields: Any) -> Document:
    """Return a NodeAllocation's request for a measurement."""
    return {"id": "m", "podUID": "u-1", **fields}


VALID = [
    document("Entitlement"),
    document("Entitlement", namespaces=[], parent="b.c-d", memoryShare=2**31 - 1, maxNodes=1),
    document("Entitlement", namespaces=["a", "b"]),
    document("Entitlement", namespaceSelector={}),
    document("Entitlement", namespaceSelector={"matchLabels": {"walras.dev/team": "a"}}),
    document("MarketJob"),
    document("MarketJob", selector={}),
    document("MarketJob", selector=None, command=["make", "-j", "{threads}"]),
    document("MarketJob", command=["a"], workingDir="b", env=[{"name": "A"}, {"name": "B"}]),
    document(
        "MarketJob",
        selector=None,
        targetRef={"apiVersion": "batch/v1", "kind": "Job", "name": "j"},
    ),
    document("MarketJob", minCores=3, maxCores=3, work="0.000000000001", parallelFraction="1.0"),
    document("MarketJob", profile="p", memory={"min": "1Gi", "max": "1024Mi", "demand": "0"}),
    document("MarketJob", memory={"min": "1000", "max": "1k", "demand": "0.5Gi"}),
    document("MarketJob", memory={"min": "1.001k", "max": "1001"}),
    document("MarketJob", memory={"min": "8Ei"}),
    document("MarketJob", memory={}),
    document("MarketJob", progress={"file": "/run/done so far"}),
    document("MarketJob", progress={"http": {"port": 65535, "path": "/m?a=b", "metric": "a:b"}}),
    document("MarketJob", progress={"file": f"/{'a' * 1023}"}),
    document(
        "MarketJob",
        progress={"http": {"port": 1, "path": f"/{'a' * 1023}", "metric": "a" * 253}},
    ),
    document("MarketJob", progress={"file": "/run/done", "total": "1000000"}, deadline="90m"),
    document("MarketJob", deadline="2026-12-01T18:00Z"),
    document("MarketJob", deadline="2028-02-29T23:59:59-11:30"),
    document("MarketJob", deadline="999999d"),
    document("MarketJob", data={"size": "12.5", "samples": ["1"]}),
    document("MarketJob", auction={"utility": "Log", "weights": {"memory": "0.5"}}),
    document(
        "MarketJob", auction={"runs": [{"cores": "0.5", "memory": "1", "utility": "0.001"}] * 2}
    ),
    document("SpeedupProfile"),
    document("SpeedupProfile", parallelFraction="0.5", memoryBandwidth="11.5"),
    document("SpeedupProfile", measurements=[measurement(peakMemory="1Mi", cacheMisses=12)]),
    document("SpeedupProfile", sampling={"cores": [1, 2, 2]}, penalties=[]),
    document("SpeedupProfile", penalties=[{"profile": "b", "penalty": "0"}]),
    document("NodeAllocation", epoch=2**53 - 1, grants=[grant(), grant("u-2", memory="12Gi")]),
    document("NodeAllocation", grants=[grant(cores="0.125000")], memoryNodes="local"),
    document("NodeAllocation", grants=[grant(entitlement="team.a", isolated=True)]),
    document("NodeAllocation", profiling=asked(progress={"file": "/a"})),
    document("NodeAllocation", profiling=asked(progress={"http": {"port": 1}}, podIP="fd00::1")),
    document(
        "NodeAllocation",
        counters=[
            {"podUID": "u-1", "file": "/a"},
            {"podUID": "u-2", "http": {"port": 1}, "podIP": "10.0.0.1"},
        ],
    ),
    document("Market"),
    document("Market", mode="observe", cores={"unit": "thread"}, profiling={"automatic": False}),
    document("Market", memory={"sliceSize": "1", "guaranteedFraction": "0"}),
    document("Market", cores={"requests": "WithinShare"}),
    document("Market", auction={"exponent": "1.000"}),
    document("Market", nodePools={}),
    document("Market", paused=True),
    document("Market", cores={"perGPU": 10}),
    document(
        "Market",
        scope={"nodeSelector": {"matchLabels": {"pool": "gpu"}}, "elsewhere": "off"},
    ),
    document("Market", scope={"namespaceSelector": {"matchLabels": {}}, "maxChanging": "3"}),
    document(
        "Market",
        nodePools={
            "labels": ["pool", "example.com/node_Pool.1", f"{'a' * 253}/{'b' * 63}"],
            "valuePerCoreHour": "0.04",
            "prices": [
                {"pool": "Large_1", "perNodeHour": "1.92"},
                {"pool": "s", "perNodeHour": "1"},
            ],
        },
    ),
    document("Entitlement", namespaceSelector={"matchLabels": {"walras.dev/team": ""}}),
    document("MarketJob", command=["a", ""], env=[{"name": "A", "value": ""}]),
]


def price(pool: str, per_node_hour: str = "1") -> Document:
    """Return the price of the nodes of a pool."""
    return {"pool": pool, "perNodeHour": per_node_hour}


@dataclass(frozen=True)
class Wrong:
    """A document with a wrong field.

    Attributes:
        document: Document with the wrong field.
        field: Wrong field, as messages name it.
        by_rule: Whether the mistake is found only by a rule, not by the schema.
    """

    document: Document
    field: str
    by_rule: bool = False

    @property
    def title(self) -> str:
        """Name for the test."""
        return f"{self.document['kind']} {self.field} {self.document['spec']}"[:120]


def _job(field: str, *, by_rule: bool = False, **spec: Any) -> Wrong:
    return Wrong(document("MarketJob", **spec), field, by_rule)


def _fields_of_jobs() -> list[Wrong]:
    decimals = ["0", "0.000", "-1", "+1", "1e3", "NaN", "nan", "inf", "", " 1", "1 ", "1\n", ".5"]
    decimals += ["5.", "1,5", "0x1", "1" * 13, "0." + "1" * 13, "\u0661", "\uff11"]
    fractions = ["0", "1.000000000001", "2", "10", "-0.5", "NaN"]
    names = ["", "A", "a_b", "-a", "a-", "a..b", ".a", "a.", "a" * 254, "a/b", "a\n", "\u00e4"]
    amounts = ["", "1GB", "1gi", "-1Gi", "1 Gi", "1e3", "Gi", "1Gi\n", "NaN", "1" * 19, "1.", "1m"]
    return [
        *(_job("work", work=each) for each in [*decimals, 2, 2.5, True]),
        *(_job("parallelFraction", parallelFraction=each) for each in [*fractions, 1]),
        *(_job("entitlement", entitlement=each) for each in [*names, 1]),
        *(_job("memory.min", memory={"min": each}) for each in [*amounts, 1024, "measured"]),
        *(_job("memory.demand", memory={"demand": each}) for each in [*amounts, 1024, "Measured"]),
        *(_job("minCores", minCores=each) for each in [0, -1, 2**31, 1.5, "1", True]),
    ]


WRONG = [
    *_fields_of_jobs(),
    Wrong(document("Entitlement", shares=None), "shares"),
    Wrong(document("Entitlement", shares=0), "shares"),
    Wrong(document("Entitlement", memoryShare=0), "memoryShare"),
    Wrong(document("Entitlement", maxNodes=0), "maxNodes"),
    Wrong(document("Entitlement", namespaces=["a", "a"]), "namespaces"),
    Wrong(document("Entitlement", namespaces="a"), "namespaces"),
    Wrong(document("Entitlement", namespaces=[f"n{i}" for i in range(1001)]), "namespaces"),
    Wrong(document("NodeAllocation", grants=[grant(f"u{i}") for i in range(1001)]), "grants"),
    Wrong(
        document(
            "Entitlement", namespaceSelector={"matchLabels": {f"l{i}": "a" for i in range(101)}}
        ),
        "matchLabels",
    ),
    Wrong(document("Entitlement", namespaceSelector={"matchLabels": {"a": 1}}), "matchLabels"),
    Wrong(document("Entitlement", namespaces=[], namespaceSelector={}), "spec", by_rule=True),
    _job("entitlement", entitlement=None),
    _job("spec", by_rule=True, minCores=3, maxCores=2),
    _job("spec", by_rule=True, parallelFraction="0.5", profile="p"),
    _job("spec", by_rule=True, program="solver", profile="p"),
    _job("spec", by_rule=True, selector=None),
    _job(
        "spec",
        by_rule=True,
        targetRef={"apiVersion": "batch/v1", "kind": "Job", "name": "j"},
    ),
    _job("memory", by_rule=True, memory={"min": "2Gi", "max": "1Gi"}),
    _job("memory", by_rule=True, memory={"min": "1.1G", "max": "1Gi"}),
    _job("memory", by_rule=True, memory={"min": "1", "max": "0"}),
    _job("progress", by_rule=True, progress={}),
    _job("progress", by_rule=True, progress={"file": "/a", "http": {"port": 1}}),
    _job("progress", by_rule=True, progress={"total": "5"}),
    _job("progress.total", progress={"file": "/a", "total": "0"}),
    _job("progress.total", progress={"file": "/a", "total": 5}),
    _job("deadline", deadline="tomorrow"),
    _job("deadline", deadline=90),
    _job("deadline", deadline="0m"),
    _job("deadline", deadline="1h30m"),
    _job("deadline", deadline="2026-12-01 18:00"),
    _job("deadline", deadline="2026-12-01T18:00"),
    _job("deadline", deadline="2026-11-31T18:00Z"),
    _job("deadline", deadline="1999-12-01T18:00Z"),
    _job("data", by_rule=True, data={"path": "a", "size": "1"}),
    _job(
        "targetRef.kind", selector=None, targetRef={"apiVersion": "v1", "kind": "pods", "name": "n"}
    ),
    _job("targetRef.name", selector=None, targetRef={"apiVersion": "v1", "kind": "Pod"}),
    _job("command", command=[]),
    _job("env", command=["a"], env=[{"name": "A"}, {"name": "A"}]),
    _job("workingDir", workingDir=""),
    _job("samples", data={"samples": []}),
    _job("http.port", progress={"http": {"port": 65536}}),
    _job("http.path", progress={"http": {"port": 1, "path": "metrics"}}),
    _job("http.metric", progress={"http": {"port": 1, "metric": "a-b"}}),
    _job("progress.file", progress={"file": "tmp/progress"}),
    _job("progress.file", progress={"file": "/a\nb"}),
    _job("progress.file", progress={"file": f"/{'a' * 1024}"}),
    _job("http.path", progress={"http": {"port": 1, "path": f"/{'a' * 1024}"}}),
    _job("http.metric", progress={"http": {"port": 1, "metric": "a" * 254}}),
    _job("auction.utility", auction={"utility": "Quadratic"}),
    _job("weights.cores", auction={"weights": {"cores": "0"}}),
    _job(
        "auction.runs",
        auction={"runs": [{"cores": "1.5", "memory": "1", "utility": "1"}]},
    ),
    Wrong(
        document("SpeedupProfile", measurements=[measurement()], parallelFraction="0.5"),
        "spec",
        by_rule=True,
    ),
    Wrong(document("SpeedupProfile", measurements=[measurement(seconds=[])]), "seconds"),
    Wrong(document("SpeedupProfile", measurements=[measurement(seconds=["0"])]), "seconds"),
    Wrong(document("SpeedupProfile", measurements=[{"cores": 1}]), "seconds"),
    Wrong(document("SpeedupProfile", sampling={"cores": []}), "sampling.cores"),
    Wrong(
        document("SpeedupProfile", penalties=[{"profile": "b", "penalty": "0.1"}] * 2), "penalties"
    ),
    Wrong(document("SpeedupProfile", penalties=[{"profile": "b", "penalty": "1.1"}]), "penalty"),
    Wrong(document("NodeAllocation", epoch=None), "epoch"),
    Wrong(document("NodeAllocation", epoch=-1), "epoch"),
    Wrong(document("NodeAllocation", epoch=2**53), "epoch"),
    Wrong(document("NodeAllocation", mode="dry"), "mode"),
    Wrong(document("NodeAllocation", grants=[grant(), grant()]), "grants"),
    Wrong(document("NodeAllocation", grants=[grant("../../etc")]), "podUID"),
    Wrong(document("NodeAllocation", grants=[grant(cores="0.0001")]), "cores"),
    Wrong(document("NodeAllocation", grants=[grant(cores="0")]), "cores"),
    Wrong(document("NodeAllocation", grants=[grant(memory="0Gi")]), "memory"),
    Wrong(document("NodeAllocation", grants=[grant(entitlement="Team A")]), "entitlement"),
    Wrong(document("NodeAllocation", profiling=asked(cores=[])), "profiling.cores"),
    Wrong(document("NodeAllocation", profiling=asked(podIP="node-1")), "podIP"),
    Wrong(document("NodeAllocation", profiling=asked(podIP="fe80::1%eth0")), "podIP"),
    Wrong(
        document("NodeAllocation", profiling=asked(progress={"http": {"port": 1}})),
        "profiling",
        by_rule=True,
    ),
    Wrong(document("NodeAllocation", profiling=asked(progress={})), "progress", by_rule=True),
    Wrong(
        document("NodeAllocation", counters=[{"podUID": "u", "file": "/a"}] * 2),
        "counters",
    ),
    Wrong(document("Market", mode="off"), "mode"),
    Wrong(document("Market", scope={"elsewhere": "enforce"}), "elsewhere"),
    Wrong(document("Market", cores={"perGPU": 0}), "perGPU"),
    Wrong(document("Market", scope={"maxChanging": "0%"}), "maxChanging"),
    Wrong(document("Market", scope={"maxChanging": "101%"}), "maxChanging"),
    Wrong(document("Market", cores={"requests": "Never"}), "requests"),
    Wrong(document("Market", nodePools={"labels": [""]}), "labels"),
    Wrong(document("Market", nodePools={"labels": ["a/b/c"]}), "labels"),
    Wrong(document("Market", nodePools={"labels": ["a" * 64]}), "labels"),
    Wrong(document("Market", nodePools={"labels": ["Example.com/pool"]}), "labels"),
    Wrong(document("Market", nodePools={"labels": ["a", "a"]}), "labels"),
    Wrong(document("Market", nodePools={"labels": [f"l{i}" for i in range(17)]}), "labels"),
    Wrong(document("Market", nodePools={"valuePerCoreHour": "0"}), "valuePerCoreHour"),
    Wrong(document("Market", nodePools={"prices": [{"pool": "a"}]}), "perNodeHour"),
    Wrong(document("Market", nodePools={"prices": [price("a", "0")]}), "perNodeHour"),
    Wrong(document("Market", nodePools={"prices": [price("-a")]}), "pool"),
    Wrong(document("Market", nodePools={"prices": [price("a"), price("a", "2")]}), "prices"),
    Wrong(document("Market", nodePools={"prices": [price(f"p{i}") for i in range(51)]}), "prices"),
    Wrong(document("Market", mode="enforce\n"), "mode"),
    Wrong(document("Market", epochSeconds=0), "epochSeconds"),
    Wrong(document("Market", cores={"mechanism": "Lottery"}), "mechanism"),
    Wrong(document("Market", cores={"hysteresis": "1.1"}), "hysteresis"),
    Wrong(document("Market", cores={"interference": "some"}), "interference"),
    Wrong(document("Market", memory={"sliceSize": "0"}), "sliceSize"),
    Wrong(document("Market", profiling={"automatic": "yes"}), "automatic"),
]
