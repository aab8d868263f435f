"""Fixtures of tests on a real node (marker ``node``), where Walras is installed by its chart.

They run on the node itself, as root, since they read its cgroups:

``KUBECONFIG``     an administrator's file of a cluster with this one node
``WALRAS_KUBE``    a program that gives the runtime an image (``image ARCHIVE``), and kills and
                   starts kubelet, containerd and apiserver (``restart PART``)
``WALRAS_IMAGES``  a folder with archives of the images, by default ``build/images``

``make verify STAGES=node`` sets all of them. Each module installs Walras anew, and its tests go
through its life on the node in their order.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from cluster_tools import KUBE, KUBECONFIG, Node
from installed import IMAGES, Installed, story

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

MISSING = (
    ("KUBECONFIG of a cluster whose node this is", bool(KUBECONFIG)),
    ("WALRAS_KUBE, a program that loads images and restarts parts", bool(KUBE)),
    ("root, to read the node's cgroups and kill its processes", os.geteuid() == 0),
    (f"images in {IMAGES}: `make verify STAGES=node`", (IMAGES / "walras-agent.tar").exists()),
)


@pytest.fixture(scope="session")
def node() -> Node:
    if missing := [what for what, there in MISSING if not there]:
        pytest.skip(f"needs {'; '.join(missing)}")
    return Node()


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, node: Node) -> Iterator[Installed]:
    made = Installed(tmp_path_factory.mktemp("e2e"), node)
    try:
        made.install()
        yield made
    finally:
        made.close()


@pytest.fixture
def unharmed(installed: Installed) -> Iterator[Installed]:
    """Walras, and nothing that the watcher found wrong until the end of the test."""
    yield installed
    assert installed.watcher.violations() == []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Tell what there was to see when a test on a node failed."""
    report = yield
    values = getattr(item, "funcargs", {})
    if report.failed and "installed" in values:
        report.sections += values["installed"].story()
    elif report.failed and "life" in values:
        report.sections += story()
    return report
