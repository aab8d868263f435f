"""Walras as its chart installs it on a real node, beside two teams' programs and a watcher."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from cluster_tools import ROOT, SYSTEM, ToolError, apply, helm, kubectl, pods
from node_watcher import Watcher
from shared_node import PROGRAM, TEAMS, Shared, deployment, namespace, values
from waiting import PATIENCE, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cluster_tools import Node
    from shared_node import Cgroups

IMAGES = Path(os.environ.get("WALRAS_IMAGES", ROOT / "build" / "images"))
PARTS = tuple(IMAGES / f"walras-{part}.tar" for part in ("operator", "agent"))
"""Archives of the images that every installation runs; loading one takes a slow node minutes."""

IMAGE = f"localhost/walras-agent:{version('walras')}"
"""Image in which programs run: it has Python, and the nodes have it already."""

CHART = str(ROOT / "helm" / "walras")

NO_SCRIPTS: Mapping[str, str] = MappingProxyType({})


class Installed:
    """Walras on a node with two teams' programs.

    Attributes:
        node: Node on which Walras is installed.
        shared: Cores and memory that the programs hold on the node.
        watcher: Watcher of the node, which runs from before Walras is installed.
        before: Values of the files that Walras may change, by container, before it was installed.
        values: A file with the chart's values.
    """

    def __init__(self, folder: Path, node: Node) -> None:
        self.node = node
        self.shared = Shared(self.node)
        self.values = folder / "values.json"
        self.values.write_text(json.dumps(values(self.node)))
        self.watcher = Watcher(self.node.name, folder / "watcher.log")
        self.before: dict[str, dict[str, str | None]] = {}

    def install(self) -> None:
        """Start the programs, read their files that Walras may change, and install Walras."""
        for archive in PARTS:
            self.node.load(archive)
        begin_programs(self.shared)
        self.before = self.settings()
        helm("install", "walras", CHART, "--create-namespace", *self.options())

    def options(self) -> list[str]:
        """Return the arguments that install and upgrade have in common."""
        return ["--values", str(self.values), "--wait", "--timeout", "5m"]

    def settings(self) -> dict[str, dict[str, str | None]]:
        """Return the files that Walras may change, and their values, by the programs' container."""
        return settings_of(self.node.cgroups)

    def pod(self, part: str) -> dict[str, Any]:
        """Return the pod of the operator or the agent; {} while there is none."""
        return next(iter(pods(SYSTEM, f"app.kubernetes.io/component={part}")), {})

    def close(self) -> None:
        """Uninstall Walras and end the watcher, as far as that succeeds."""
        withdraw("2m")
        self.watcher.close()

    def story(self) -> Iterator[tuple[str, str]]:
        """Yield titles and texts that help to understand a failed test."""
        yield "the watcher's log", self.watcher.log.read_text()
        yield from story()


def begin_programs(
    shared: Shared, patience: float = PATIENCE, scripts: Mapping[str, str] = NO_SCRIPTS
) -> None:
    """Start the teams' programs, some of them by scripts of their own, and wait until all run."""
    apply(*map(namespace, TEAMS))
    programs = [(team, each) for team, programs in TEAMS.items() for each in programs]
    apply(*(deployment(team, each, IMAGE, scripts.get(each, PROGRAM)) for team, each in programs))
    assert eventually(lambda: len(shared.cpus()) == len(programs), patience, pause=0.5)


def settings_of(cgroups: Cgroups) -> dict[str, dict[str, str | None]]:
    """Return the files that Walras may change and their values, by container of the programs."""
    uids = {pod["metadata"]["uid"] for team in TEAMS for pod in pods(team)}
    return {
        container: cgroups.settings(group)
        for container, group in cgroups.containers().items()
        if any(uid in group.replace("_", "-") for uid in uids)
    }


def withdraw(timeout: str) -> None:
    """Uninstall Walras, and delete what it and the programs may have left on the API server."""
    for how in (["--wait", "--timeout", timeout], ["--no-hooks"]):
        with suppress(ToolError):
            helm("uninstall", "walras", "--ignore-not-found", *how)
    for what in (
        ["namespace", SYSTEM, *TEAMS],
        ["entitlements,markets,nodeallocations", "--all"],
    ):
        with suppress(ToolError):
            # A namespace whose pods take their time to end is tried again ever more seldom.
            kubectl("delete", "--ignore-not-found", "--timeout=180s", *what)


def story() -> Iterator[tuple[str, str]]:
    """Yield titles and texts of what the cluster says, after a failed test."""
    for part in ("operator", "agent"):
        selector = f"app.kubernetes.io/component={part}"
        for option in ("--previous=true", "--previous=false"):
            with suppress(ToolError):
                log = kubectl("logs", "-n", SYSTEM, "-l", selector, "--tail=200", option)
                yield f"log of the {part} ({option})", log
    for what in ("walras", "pods,events"):
        with suppress(ToolError):
            wide = "yaml" if what == "walras" else "wide"
            yield what, kubectl("get", what, "-A", "-o", wide)
