"""Walras on a real node, from `helm install` to `helm uninstall`, while a watcher looks on.

One life in the order of the tests: each goes on from where the last one ended. Nothing stands in
for anything: images, API server, kubelet, runtime and kernel are real, and so are the programs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cluster_tools import SYSTEM, answers, apply, get, helm, kubectl, pods
from node_watcher import ALLOCATIONS
from shared_node import CPUS, TEAMS, entitlement, job
from waiting import eventually

if TYPE_CHECKING:
    from installed import Installed

pytestmark = pytest.mark.node

FIT = """
from walras_agent.profiling.request import ProgressSample
from walras_agent.profiling.samples import fit_samples
one, two = ProgressSample(1, 10.0, 100.0), ProgressSample(2, 10.0, 100 / .55)
print(round(fit_samples([one, two]).mean, 6))
"""
"""A node of two CPUs leaves no pod two cores of its own, so none is measured on this one."""

FEW, MANY = 1, 9
"""Shares of a team that is to have the fewer and the more cores."""


def settles(installed: Installed, *, first: str) -> bool:
    """Wait until all grants hold, and one program has cores of its own, more than any other."""

    def settled() -> bool:
        granted = installed.shared.granted()
        return (
            max(granted, key=granted.__getitem__, default="") == first
            and granted[first] >= 1
            and not installed.shared.amiss()
        )

    return eventually(settled, 180, pause=0.2)


def tell(installed: Installed) -> str:
    return f"{installed.shared.granted()} on {installed.shared.cpus()}: {installed.shared.amiss()}"


def give(*, vision: int, speech: int) -> None:
    """Change what the teams are entitled to."""
    apply(entitlement("vision", vision), entitlement("speech", speech))


@pytest.mark.gate
def test_an_installed_market_gives_programs_their_cores(unharmed: Installed) -> None:
    give(vision=MANY, speech=FEW)
    apply(job("vision", "train", work="2"), job("vision", "index"))
    apply(job("speech", "decode", work="2"), job("speech", "align"))
    assert settles(unharmed, first="train"), tell(unharmed)
    assert sum(unharmed.shared.granted().values()) <= CPUS


@pytest.mark.gate
def test_the_agents_image_holds_what_the_fit_of_a_speedup_needs(unharmed: Installed) -> None:
    agent = unharmed.pod("agent")["metadata"]["name"]
    fitted = kubectl("exec", "--namespace", SYSTEM, agent, "--", "python3", "-c", FIT)
    assert fitted.strip() == "0.9"


@pytest.mark.gate
def test_a_changed_entitlement_moves_cores(unharmed: Installed) -> None:
    before = unharmed.shared.cpus()
    give(vision=FEW, speech=MANY)
    assert settles(unharmed, first="decode"), tell(unharmed)
    assert unharmed.shared.cpus() != before
    assert eventually(lambda: unharmed.shared.uid("decode") in unharmed.watcher.owners(), pause=0.2)
    give(vision=MANY, speech=FEW)
    assert settles(unharmed, first="train"), tell(unharmed)


def test_a_deleted_job_has_its_pod_as_it_was(unharmed: Installed) -> None:
    kubectl("delete", "marketjob", "train", "--namespace", "vision")
    assert eventually(lambda: "train" not in unharmed.shared.granted(), 60, pause=0.2)
    assert settles(unharmed, first="index"), tell(unharmed)
    apply(job("vision", "train", work="2"))
    assert settles(unharmed, first="train"), tell(unharmed)


def test_a_node_that_is_off_is_restored_until_it_is_in_the_market_again(
    unharmed: Installed,
) -> None:
    kubectl("label", "node", unharmed.node.name, "walras.dev/mode=off")
    put_back = lambda: unharmed.settings() == unharmed.before  # noqa: E731
    assert eventually(put_back, 60, pause=0.2), (unharmed.settings(), unharmed.before)
    kubectl("label", "node", unharmed.node.name, "walras.dev/mode-")
    assert settles(unharmed, first="train"), tell(unharmed)


@pytest.mark.gate
@pytest.mark.parametrize("part", ["agent", "operator"])
def test_a_killed_part_of_walras_goes_on_where_it_was(unharmed: Installed, part: str) -> None:
    held, killed = unharmed.shared.cpus(), unharmed.pod(part)
    unharmed.node.kill(killed)
    give(vision=FEW, speech=MANY)
    assert settles(unharmed, first="decode"), tell(unharmed)
    give(vision=MANY, speech=FEW)
    assert settles(unharmed, first="train"), tell(unharmed)
    (status,) = unharmed.pod(part)["status"]["containerStatuses"]
    assert status["restartCount"] > killed["status"]["containerStatuses"][0]["restartCount"]
    assert unharmed.shared.cpus() == held


@pytest.mark.parametrize("part", ["kubelet", "containerd", "apiserver"])
def test_a_killed_part_of_the_cluster_moves_no_core(unharmed: Installed, part: str) -> None:
    held = unharmed.shared.cpus()
    unharmed.node.restart(part)
    assert eventually(answers, pause=0.2)
    give(vision=FEW, speech=MANY)
    assert settles(unharmed, first="decode"), tell(unharmed)
    give(vision=MANY, speech=FEW)
    assert settles(unharmed, first="train"), tell(unharmed)
    assert unharmed.shared.cpus() == held


@pytest.mark.gate
def test_an_upgrade_replaces_walras_and_moves_no_core(unharmed: Installed) -> None:
    held, epoch = unharmed.shared.cpus(), unharmed.shared.allocation()["spec"]["epoch"]
    replaced = {unharmed.pod(part)["metadata"]["uid"] for part in ("operator", "agent")}
    changed = ("--set", "operator.log.verbose=true", "--set", "agent.log.verbose=true")
    helm("upgrade", "walras", "helm/walras", *unharmed.options(), *changed)
    assert not replaced & {pod["metadata"]["uid"] for pod in pods(SYSTEM)}
    assert settles(unharmed, first="train"), tell(unharmed)
    assert unharmed.shared.cpus() == held
    assert unharmed.shared.allocation()["spec"]["epoch"] == epoch


@pytest.mark.gate
def test_the_release_passes_its_own_test(unharmed: Installed) -> None:
    assert "Phase:          Succeeded" in helm("test", "walras", "--timeout", "2m")


@pytest.mark.gate
def test_an_uninstall_puts_every_original_value_back(unharmed: Installed) -> None:
    helm("uninstall", "walras", "--wait", "--timeout", "5m")
    assert unharmed.settings() == unharmed.before
    assert not get(ALLOCATIONS)["items"]
    assert eventually(lambda: not (unharmed.pod("operator") or unharmed.pod("agent")), pause=0.5)
    assert all(pods(team) for team in TEAMS)
