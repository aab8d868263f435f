"""Versions of Kubernetes that are built, that the chart takes, and that pages name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools" / "kubernetes"
BUILT = sorted((each.name for each in TOOL.glob("1.*")), key=lambda name: int(name[2:]))
OLDEST, NEWEST = BUILT[0], BUILT[-1]


def found(pattern: str, file: Path) -> list[str]:
    return re.findall(pattern, file.read_text())


@pytest.mark.parametrize("version", BUILT)
def test_a_folder_builds_the_version_that_it_is_named_after(version: str) -> None:
    (release,) = found(r"k8s.io/kubernetes v(\d+\.\d+)\.", TOOL / version / "go.mod")
    assert release == version


def test_the_newest_version_is_built_unless_another_is_asked_for() -> None:
    assert found(r"KUBE_VERSION:-([\d.]+)", TOOL / "kube") == [NEWEST]


def test_the_chart_and_the_page_name_the_same_oldest_version() -> None:
    assert found(r">=(\d+\.\d+)\.", ROOT / "helm" / "walras" / "Chart.yaml") == [OLDEST]
    assert found(r"Kubernetes ([\d.]+) or newer", ROOT / "docs" / "install.md") == [OLDEST]


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md", "docs/install.md"])
def test_pages_name_the_newest_version(page: str) -> None:
    assert found(rf"\b{re.escape(NEWEST)}\b", ROOT / page)
