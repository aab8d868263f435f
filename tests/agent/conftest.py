"""Tests of one version of cgroups run where the kernel has it, here or in an emulated machine."""

from pathlib import Path

import pytest

VERSION = 2 if Path("/sys/fs/cgroup/cgroup.controllers").exists() else 1


def pytest_configure(config: pytest.Config) -> None:
    """Name the markers here: inside a guest there is no other configuration."""
    config.addinivalue_line(
        "markers", "cgroup(version): asks a kernel with this version; left out on others"
    )
    for name in ("system", "speed"):
        config.addinivalue_line("markers", f"{name}: see pyproject.toml")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out, not skip, what is about a kernel of another kind: it runs elsewhere."""
    others = [item for item in items if VERSION not in asked_for(item)]
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]


def asked_for(item: pytest.Item) -> set[int]:
    """Return the versions of cgroups that a test is for."""
    return {1, 2}.intersection(*({mark.args[0]} for mark in item.iter_markers("cgroup")))
