"""The nodes of examples/kind/two-nodes.yaml share a machine: each of its CPUs is sold by one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import yaml

from walras_agent.cpuset import CpuSet

FILE = Path(__file__).parents[2] / "examples" / "kind" / "two-nodes.yaml"


def test_each_cpu_of_the_machine_is_sold_by_one_node() -> None:
    machine, sold = set(range(8)), Counter[int]()
    for node in yaml.safe_load(FILE.read_text())["nodes"]:
        (patch,) = map(yaml.safe_load, node["kubeadmConfigPatches"])
        reserved = CpuSet.parse(patch["nodeRegistration"]["kubeletExtraArgs"]["reserved-cpus"])
        sold.update(machine - set(reserved))
    assert sold == dict.fromkeys(machine, 1)
