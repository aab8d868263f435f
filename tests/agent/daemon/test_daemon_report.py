"""The status after a round has conditions that an administrator can act on."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from machines import machine
from walras_agent.cpuset import CpuSet
from walras_agent.daemon.health import Health, status_json
from walras_agent.daemon.listeners import StatusFile, StatusReporter
from walras_agent.daemon.report import (
    ReconcileReport,
    profiling_status,
    status_of,
    topology_of,
)
from walras_agent.kernel import Kernel
from walras_agent.profiling.request import MeasurementReport, ProgressSample
from walras_agent.round_log import GroupFailure
from walras_agent.status import NodeStatus, PodStatus
from walras_agent.tree import CgroupFile
from walras_api.node_allocation_status import NodeAllocationStatus

if TYPE_CHECKING:
    from pathlib import Path

NOW = "2026-01-01T00:00:00Z"
TOPOLOGY = machine(nodes=2, cores=2, threads=2)
KERNEL = Kernel("7.3.4", "concur", assumed=True)
HELD = PodStatus(
    "u1",
    "vision/train",
    CpuSet([0, 4]),
    1 << 30,
    "Enforced",
    exclusive=CpuSet([0, 4]),
    sockets=(0, 1),
    used=1.25,
)
WAITING = PodStatus("u2", "vision/web", CpuSet([1]), None, "Pending", "memory comes down in steps")
STUCK = PodStatus(
    "u3", "vision/bad", CpuSet([1]), None, "Failed", "cpuset.cpus does not accept '9'"
)
ABSENT = PodStatus("u4", "vision/gone", None, None, "Absent", "no container")


def report(*pods: PodStatus, **more: Any) -> ReconcileReport:
    problems = more.pop("problems", ())
    node = NodeStatus(**{"epoch": 3, "mode": "enforce", "pods": pods, **more})
    return ReconcileReport(
        node, 0.01, topology_of(TOPOLOGY, CpuSet([0]), 8 << 30), problems, kernel=KERNEL
    )


@pytest.mark.parametrize(
    ("looked", "ready", "message"),
    [
        (report(HELD), ("True", "Enforced"), "1 grants enforced"),
        (
            report(HELD, ABSENT),
            ("True", "Enforced"),
            "2 grants enforced, 1 of them for pods without a container here",
        ),
        (report(HELD, WAITING), ("False", "Pending"), "vision/web: memory comes down in steps"),
        (
            report(WAITING, STUCK),
            ("False", "Failed"),
            "vision/bad: cpuset.cpus does not accept '9'",
        ),
        (report(HELD, refused="policy static"), ("False", "Refused"), "policy static"),
        (report(epoch=None, mode="observe"), ("False", "NoPlan"), "no plan received yet"),
        (
            report(HELD, mode="observe", writes=((CgroupFile("cpu", "/a", "cpu.max"), "max"),)),
            ("True", "Observing"),
            "nothing is written; writes withheld: 1",
        ),
        (
            report(HELD, failures=(GroupFailure("/x", "stuck", "/x: waits"),)),
            ("False", "Pending"),
            "/x: waits",
        ),
        (
            report(*[STUCK] * 7),
            ("False", "Failed"),
            "; ".join(["vision/bad: cpuset.cpus does not accept '9'"] * 5) + "; and 2 more",
        ),
    ],
)
def test_ready(looked: ReconcileReport, ready: tuple[str, str], message: str) -> None:
    told, accepted = status_of(looked, NOW).conditions
    assert (told.type, told.status, told.reason, told.message) == ("Ready", *ready, message)
    assert (accepted.status == "True") == (looked.node.epoch is not None)
    assert looked.node.is_enforced == (ready == ("True", "Enforced"))


def test_transition_time_stays_while_a_condition_stays() -> None:
    first = status_of(report(WAITING), NOW)
    second = status_of(report(STUCK), "2026-01-01T00:00:10Z", first.conditions)
    third = status_of(report(HELD), "2026-01-01T00:00:20Z", second.conditions)
    times = [each.conditions[0].last_transition_time for each in (first, second, third)]
    assert times == [NOW, NOW, "2026-01-01T00:00:20Z"]
    assert third.conditions[1].last_transition_time == NOW


def test_plan_refused_is_a_condition_of_its_own() -> None:
    refused = report(HELD, problems=("plan: bad", "plan: worse"))
    ready, accepted = status_of(refused, NOW).conditions
    assert (ready.status, accepted.status) == ("True", "False")
    assert (accepted.reason, accepted.message) == ("PlanRefused", "plan: bad; plan: worse")


def test_document() -> None:
    document = json.loads(status_json(status_of(report(HELD, ABSENT, shared=CpuSet([1, 2])), NOW)))
    assert document["pods"] == [
        {
            "podUID": "u1",
            "namespace": "vision",
            "name": "train",
            "cpus": "0,4",
            "sockets": [0, 1],
            "memory": str(1 << 30),
            "usedCpus": "1.25",
            "state": "Enforced",
            "reason": "",
        },
        {
            "podUID": "u4",
            "namespace": "vision",
            "name": "gone",
            "state": "Absent",
            "reason": "no container",
        },
    ]
    layout = document["topology"].pop("layout")
    places = [(each["socket"], each["numaNode"], each["cpus"]) for each in layout]
    assert places == [
        (cpu.socket, cpu.numa, str(core))
        for core in sorted(TOPOLOGY.cores(), key=min)
        for cpu in TOPOLOGY.cpus
        if cpu.id == min(core)
    ]
    assert document["topology"] == {
        "cpus": "0-7",
        "cores": 4,
        "threads": 8,
        "sockets": len({cpu.socket for cpu in TOPOLOGY.cpus}),
        "numaNodes": 2,
        "reserved": "0",
        "memory": str(8 << 30),
    }
    assert document["kernel"] == {"release": "7.3.4", "cgroupMode": "concur", "assumed": True}
    assert document["sharedCpus"] == "1-2"
    assert NodeAllocationStatus.model_validate_json(json.dumps(document)) is not None


def test_measurement_in_a_document() -> None:
    measured = MeasurementReport(
        "m1",
        "u1",
        "Complete",
        source="cpuTime",
        warnings=("cannot see waiting",),
        samples=(ProgressSample(1, 2.0, 2.0), ProgressSample(2, 2.0, 3.6)),
        planned=2,
        memory_bandwidth=12.5e9,
    )
    told = profiling_status(measured).model_dump(by_alias=True, exclude_none=True)
    assert told["memoryBandwidth"] == "12.5"
    assert told["samples"][1] == {"cores": 2, "seconds": "2", "progress": "3.6"}


def test_samples_are_told_when_all_are_taken() -> None:
    """A status that changes with every sample is a write, and a decision, every two seconds."""
    few, more = (
        MeasurementReport("m1", "u1", "Running", source="cpuTime", samples=samples, planned=6)
        for samples in (
            (ProgressSample(1, 2.0, 2.0),),
            (ProgressSample(1, 2.0, 2.0), ProgressSample(2, 2.0, 3.6)),
        )
    )
    assert profiling_status(few) == profiling_status(more)
    assert profiling_status(few).planned == 6


def test_status_file_is_replaced_on_change_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = StatusFile(tmp_path / "status.json")
    health = Health(patience=60)
    statuses = StatusReporter((file.write, health.update))
    assert health.ready()[0] == 503
    assert health.shown()[0] == 503
    statuses.notify(report(HELD))
    written = file.path.stat().st_ino
    statuses.notify(report(HELD))
    assert file.path.stat().st_ino == written
    statuses.notify(report(STUCK))
    assert file.path.stat().st_ino != written
    assert health.shown().body == file.path.read_text()
    assert (health.alive()[0], health.ready()[0]) == (200, 200)
    beyond = StatusFile(tmp_path / "nowhere" / "status.json")
    StatusReporter((beyond.write,)).notify(report(HELD))
    assert "the status cannot be written: No such file or directory" in caplog.text


@pytest.mark.system
def test_agent_does_not_load_what_only_measurements_need() -> None:
    """NumPy is 12 MiB of the 80 that an agent may take on every node."""
    loaded = (
        "import sys, walras_agent.daemon.command, walras_agent.daemon.informer, "
        "walras_agent.daemon.publish; print('numpy' in sys.modules)"
    )
    command = [sys.executable, "-c", loaded]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
