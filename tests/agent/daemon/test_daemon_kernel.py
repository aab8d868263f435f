"""The command ``walras-agent`` on pods of a real kernel, as an administrator has it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agent_command import Machine, environment
from manual import restore_by_hand
from pod_groups import pod_group
from real_pods import TREE, RealPods, allowed, needs_pods
from waiting import eventually
from walras_agent.quota import WEIGHT_FILES
from walras_agent.topology import Topology
from walras_agent.tree import CgroupFile, read_cpu_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator


pytestmark = needs_pods

SOFT = {1: "memory.soft_limit_in_bytes", 2: "memory.high"}
GIB = str(1 << 30)
NONE = {1: "9223372036854771712", 2: "max"}


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    assert TREE is not None
    pods = RealPods(TREE)
    yield Machine(pods, tmp_path)
    pods.close()


def test_plan_is_held_once_shown_and_put_back(machine: Machine) -> None:
    owner, sharer = machine.pods.start("aa"), machine.pods.start("bb")
    machine.want(aa="1")
    done = machine.once()
    assert (done.returncode, done.stdout) == (0, "")
    core = Topology.read().cores()[0]
    assert allowed(owner) == core
    assert allowed(sharer) == machine.everything - core
    shown = machine.call("show")
    assert f"aa   {'6161' * 15}6160  {core}" in shown.stdout
    assert f"{machine.pods.container('aa')}/cpuset.cpus" in shown.stdout
    seen = json.loads(machine.call("show", "-o", "json").stdout)
    assert {each["podUID"]: each["cpus"] for each in seen["pods"]} == {
        "aa": str(core),
        "bb": str(machine.everything - core),
    }
    back = machine.call("restore")
    assert back.returncode == 0
    assert "files restored" in back.stdout
    assert allowed(owner) == allowed(sharer) == machine.everything
    assert machine.call("restore").stdout.startswith("0 files restored")


def test_what_pods_could_use_is_gone_on_from_after_a_restart(machine: Machine) -> None:
    """Demands are read from the last agent's status, which comes with the plan in a cluster."""
    machine.pods.start("aa")
    grant = {"podUID": "aa", "name": "pod-aa", "cores": "1", "memory": "1Gi"}
    told = {"podUID": "aa", "namespace": "default", "name": "pod-aa", "state": "Enforced"}
    spec = {"epoch": 1, "mode": "observe", "grants": [grant]}

    def demand(**also: object) -> int:
        machine.write({"spec": spec, **also})
        machine.once("--status", str(machine.status_file))
        return int(machine.status()["pods"][0]["memoryDemand"])

    uses = demand()
    more = uses + uses // 2
    assert demand(status={"pods": [{**told, "memoryDemand": str(more)}]}) >= more


def test_dry_run_tells_the_writes_and_leaves_no_trace(machine: Machine) -> None:
    owner = machine.pods.start("aa")
    machine.pods.start("bb")
    machine.want(aa="1")
    told = machine.call("run", str(machine.plan), "--dry-run")
    core = Topology.read().cores()[0]
    assert f"{machine.pods.container('aa')}/cpuset.cpus = {core}" in told.stdout.splitlines()
    assert told.returncode == 0
    assert allowed(owner) == machine.everything
    assert not machine.state.exists()
    machine.once()
    told = machine.call("run", str(machine.plan), "--dry-run")
    assert told.stdout == "nothing to write: the node matches the plan of epoch 1\n"


def test_agent_follows_plans_pods_and_drift_as_they_come(machine: Machine) -> None:
    """It looks by itself once an hour here: all that it sees at once it was told by inotify."""
    first = machine.pods.start("aa")
    second = machine.pods.start("bb")
    core = Topology.read().cores()[0]
    machine.want(aa="1")
    with machine.running():
        assert eventually(lambda: machine.enforced() and allowed(first) == core)
        machine.want(bb="1")
        assert eventually(lambda: machine.enforced() and allowed(second) != machine.everything)
        held = allowed(second)
        third = machine.pods.start("cc")
        assert eventually(lambda: allowed(third) == machine.everything - held)
        # The agent reads back what it wrote: a change before that is a write that had no effect,
        # not a change by others. Once it reports a later plan, it has read everything back.
        machine.want(bb="1")
        assert eventually(machine.enforced)
        files = CgroupFile("cpuset", machine.pods.container("cc"), "cpuset.cpus")
        machine.pods.tree.write(files, str(machine.everything))
        assert eventually(lambda: allowed(third) == machine.everything - held)
        assert eventually(lambda: "was changed by others" in machine.log.read_text())
        machine.pods.kill(machine.pods.container("bb"))
        assert eventually(lambda: machine.status()["pods"][0]["state"] == "Absent")
        machine.want("observe", aa="1")
        assert eventually(lambda: machine.status().get("mode") == "observe")
        assert allowed(first) == allowed(third) == machine.everything
        shown = {write["file"] for write in machine.status()["wouldWrite"]}
        weight = WEIGHT_FILES[machine.pods.tree.version]
        assert f"{machine.pods.layout.pods}/burstable/{weight}" in shown
        assert {file for file in shown if not file.endswith(weight)} == {
            f"{machine.pods.container(pod)}/cpuset.cpus" for pod in ("aa", "cc")
        }


def test_agent_follows_a_memory_limit_as_others_write_it(machine: Machine) -> None:
    """It looks by itself once an hour here, and lets the pod rest meanwhile."""
    machine.pods.start("aa")
    tree = machine.pods.tree
    pod = machine.pods.container("aa").rpartition("/")[0]
    soft = CgroupFile("memory", pod, SOFT[tree.version])
    machine.want(memory="1Gi", aa="1")
    with machine.running():
        assert eventually(lambda: machine.enforced() and tree.read(soft) == GIB)
        tree.write(soft, str(1 << 28))
        assert eventually(lambda: tree.read(soft) == GIB)


def test_plan_that_cannot_be_taken_leaves_the_last_in_force(machine: Machine) -> None:
    pid = machine.pods.start("aa")
    machine.pods.start("bb")
    machine.want(aa="1")
    with machine.running():
        assert eventually(machine.enforced)
        core = allowed(pid)
        machine.ask(0, bb="1")
        assert eventually(lambda: machine.condition("PlanAccepted")[0] == "PlanRefused")
        assert "older than the plan in force" in machine.condition("PlanAccepted")[1]
        machine.plan.write_text("kind: [")
        assert eventually(lambda: "not YAML" in machine.condition("PlanAccepted")[1])
        machine.plan.unlink()
        assert eventually(lambda: "cannot be read" in machine.condition("PlanAccepted")[1])
        assert machine.condition("Ready") == ("Enforced", "1 grants enforced")
        assert machine.enforced(1)
        machine.ask(2, aa="1")
        assert eventually(lambda: machine.condition("PlanAccepted")[0] == "Taken")
        assert allowed(pid) == core


def test_an_agent_that_cannot_write_its_state_lives_and_goes_on_once_it_can(
    machine: Machine,
) -> None:
    """On a full disk, a plan that cannot be saved is enforced all the same."""
    machine.pods.start("aa")
    second = machine.pods.start("bb")
    machine.want(aa="1")
    with machine.running() as process:
        assert eventually(machine.enforced)
        # Where the agent writes each file before it replaces the old one.
        for name in ("plan", "journal"):
            (machine.state / f".{name}.json.new").mkdir()
        machine.want(bb="1", cc="1")
        assert eventually(lambda: machine.condition("Ready")[0] == "Refused")
        assert "journal.json: cannot be written: Is a directory" in machine.condition("Ready")[1]
        assert "plan.json: cannot be written" in machine.log.read_text()
        assert machine.status()["epoch"] == 2
        assert process.poll() is None
        for name in ("plan", "journal"):
            (machine.state / f".{name}.json.new").rmdir()
        assert eventually(machine.enforced)
        assert allowed(second) == Topology.read().cores()[0]


def test_weights_of_pods_that_compete_are_corrected_between_passes(machine: Machine) -> None:
    """The agent passes over the node once an hour here, or when others change something."""
    cores = len(Topology.read().cores())
    spin = ("sh", "-c", "while :; do :; done")
    for number in range(cores):
        machine.pods.start("aa", *spin, number=number)
    machine.pods.start("bb", *spin)
    tree = machine.pods.tree
    weight = CgroupFile("cpu", pod_group(machine.pods.layout, "bb"), WEIGHT_FILES[tree.version])
    original = tree.read(weight)
    machine.want(isolated=False, aa=f"{cores - 1}.5", bb="0.5")
    with machine.running():
        assert eventually(machine.enforced)
        granted = tree.read(weight)
        assert granted != original
        assert eventually(lambda: tree.read(weight) != granted, pause=0.2)
        passes = r"walras_agent_reconcile_seconds_count (\d+)"
        (before,) = re.findall(passes, machine.get("/metrics")[1])
        corrected = tree.read(weight)
        assert eventually(lambda: tree.read(weight) != corrected, pause=0.2)
        assert re.findall(passes, machine.get("/metrics")[1]) == [before]
        assert machine.status()["pods"][1]["state"] == "Enforced"
    assert machine.call("restore").returncode == 0
    assert tree.read(weight) == original


def test_pods_that_share_cpus_divide_their_time_as_they_bought_it(machine: Machine) -> None:
    """They keep that division while no agent is there."""
    spin = ("sh", "-c", "while :; do :; done")
    for pod in ("aa", "bb"):
        for number in range(2 * len(machine.everything)):
            machine.pods.start(pod, *spin, number=number)
    weight = WEIGHT_FILES[machine.pods.tree.version]

    def weights() -> list[int]:
        groups = (pod_group(machine.pods.layout, pod) for pod in ("aa", "bb"))
        return [int(machine.pods.tree.read(CgroupFile("cpu", each, weight))) for each in groups]

    machine.want(isolated=False, aa="1.5", bb="0.5")
    with machine.running() as process:
        assert eventually(machine.enforced)
        process.kill()
        process.wait()
    large, small = weights()
    assert 2 < large / small < 4
    machine.want(isolated=False, aa="0.5", bb="1.5")
    with machine.running():
        assert eventually(machine.enforced)
        assert eventually(lambda: weights()[1] > 2 * weights()[0])


def test_http_answers_tell_the_truth(machine: Machine) -> None:
    machine.pods.start("aa", "sh", "-c", "while :; do :; done")
    machine.pods.start("bb")
    machine.want(aa="1")
    with machine.running():
        assert eventually(machine.enforced)
        assert machine.get("/healthz")[0] == 200
        assert machine.get("/readyz") == (200, "epoch 1\n")
        assert json.loads(machine.get("/status")[1]) == machine.status()
        assert machine.get("/nowhere")[0] == 404
        code, page = machine.get("/metrics")
        assert code == 200
        assert 'walras_agent_writes_total{controller="cpuset"} 2.0' in page
        own = len(Topology.read().cores()[0])
        assert f'walras_agent_pod_own_cpus{{namespace="default",pod="pod-aa"}} {own}.0' in page
        assert 'walras_agent_pods{state="Enforced"} 1.0' in page
        assert 'walras_agent_pod_granted_cores{namespace="default",pod="pod-aa"} 1.0' in page
        seconds = r'walras_agent_pod_cpu_seconds_total{namespace="default",pod="pod-(.+)"} (.+)'

        def used() -> dict[str, float]:
            found = re.findall(seconds, machine.get("/metrics")[1])
            return {pod: float(text) for pod, text in found}

        assert eventually(lambda: used()["aa"] > 0)
        shown = used()
        group = pod_group(machine.pods.layout, "aa")
        assert shown.keys() == {"aa"}
        assert shown["aa"] <= read_cpu_seconds(machine.pods.tree, group)
        assert "walras_agent_plan_enforced_seconds_count 1.0" in page
        stalls = Path("/proc/pressure/cpu").exists()
        assert ('walras_agent_node_stall_seconds_total{resource="cpu"}' in page) == stalls
        of_pods = stalls and machine.pods.tree.version == 2
        assert ('pod_stall_seconds_total{namespace="default",pod="pod-aa"' in page) == of_pods
    log = [json.loads(line) for line in machine.log.read_text().splitlines()]
    (change,) = [line for line in log if line.get("event") == "enforced"]
    assert (change["pod"], change["uid"], change["epoch"]) == ("default/pod-aa", "aa", 1)
    assert change["cpus"] == str(Topology.read().cores()[0])


def test_agents_and_restores_exclude_each_other(machine: Machine) -> None:
    pid = machine.pods.start("aa")
    machine.pods.start("bb")
    machine.want(aa="1")
    with machine.running() as agent:
        assert eventually(machine.enforced)
        for refused in (machine.once(), machine.call("restore")):
            assert refused.returncode == 1
            assert f"in use by another walras-agent (process {agent.pid})" in refused.stderr
        assert machine.call("show").returncode == 0
        held = allowed(pid)
    assert agent.returncode == 0
    assert allowed(pid) == held, "an agent that ends leaves the pods as they are"
    assert machine.call("restore").returncode == 0
    assert allowed(pid) == machine.everything


def test_killed_agent_goes_on_without_its_plan(machine: Machine) -> None:
    """During an outage of the API server, the last plan on disk confines new pods too."""
    machine.pods.start("aa")
    machine.want(aa="1")
    with machine.running() as agent:
        assert eventually(machine.enforced)
        agent.kill()
        agent.wait()
    machine.plan.unlink()
    newcomer = machine.pods.start("bb")
    with machine.running():
        shared = machine.everything - Topology.read().cores()[0]
        assert eventually(lambda: allowed(newcomer) == shared)
    machine.ask(0)
    again = machine.once()
    assert again.returncode == 2, "epochs do not start anew with the process"
    assert "older than the plan in force" in again.stderr
    assert machine.call("restore").returncode == 0
    assert machine.once().returncode == 0, "what was put back is over, and its epochs with it"


def test_everything_is_undone_by_hand_as_the_manual_says(machine: Machine) -> None:
    pids = [machine.pods.start(pod) for pod in ("aa", "bb")]
    machine.want(aa="1", memory="64Mi")
    with machine.running() as agent:
        assert eventually(machine.enforced)
        agent.kill()
        agent.wait()
    assert allowed(pids[0]) != machine.everything
    limit = SOFT[machine.pods.tree.version]
    setting = CgroupFile("memory", pod_group(machine.pods.layout, "aa"), limit)
    assert machine.pods.tree.read(setting) == str(64 << 20)
    restore_by_hand(machine.state)
    assert [allowed(pid) for pid in pids] == [machine.everything] * 2
    assert machine.pods.tree.read(setting) == NONE[machine.pods.tree.version]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("run", "PLAN", "--listen", "everywhere"), "is not an address and port, such as"),
        (("run", "PLAN", "--period", "0"), "is not in the range"),
        (("run", "PLAN", "--reserved-cpus", "1-"), "write CPUs as 0-3,8"),
        (("run", "PLAN", "--cgroup-driver", "docker"), "is not one of 'cgroupfs', 'systemd'"),
        (("run", "NOWHERE"), "NOWHERE: cannot be read: No such file or directory"),
        (("run", "PLAN", "--listen", "192.0.2.1:9"), "192.0.2.1:9: "),
    ],
)
def test_bad_input_is_told_with_the_way_out(
    machine: Machine, arguments: tuple[str, ...], complaint: str
) -> None:
    machine.pods.start("aa")
    machine.want(aa="1")
    given = [str(machine.plan) if each == "PLAN" else each for each in arguments]
    done = machine.call(*given)
    assert done.returncode == 2
    assert complaint in " ".join(done.stderr.split())


def test_node_without_pods_is_told(machine: Machine) -> None:
    machine.want()
    given = ("run", str(machine.plan), "--once", "--state-folder", str(machine.state))
    done = subprocess.run(
        machine.command(*given, "--cgroup-root", "/nowhere"),
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
    )
    assert done.returncode == 1
    assert "set --cgroup-driver and --cgroup-root to the kubelet's" in done.stderr


def test_signal_in_the_midst_of_a_wait_ends_the_agent(machine: Machine) -> None:
    machine.pods.start("aa")
    machine.want(aa="0.5")
    for number in (signal.SIGTERM, signal.SIGINT):
        with machine.running() as agent:
            assert eventually(machine.enforced)
            agent.send_signal(number)
            assert agent.wait() == 0
