"""The kernel's division of CPU time, against linear programs that know no way to compute it."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy.optimize import linprog

from walras.analysis.cpu_time import BusyGroup, cpu_time


class Programs:
    """Linear programs whose variables are the time of each group on each CPU, and a level."""

    def __init__(self, groups: Sequence[BusyGroup]) -> None:
        self.groups = groups
        self.cpus = sorted({cpu for group in groups for cpu in group.cpus})
        self.size = len(groups) * len(self.cpus) + 1

    def time(self, group: int) -> np.ndarray:
        row = np.zeros(self.size)
        row[group * len(self.cpus) : (group + 1) * len(self.cpus)] = 1
        return row

    def most(self, goal: np.ndarray, least: dict[int, float], *, level: bool) -> float:
        """Return the most of the goal while groups have at least some time.

        Args:
            goal: Weights of the variables.
            least: Time that some groups have at least.
            level: Whether all other groups have the level times their weight at least.
        """
        rows, bounds = [], []
        for index in range(len(self.cpus)):
            row = np.zeros(self.size)
            row[index : self.size - 1 : len(self.cpus)] = 1
            rows.append(row)
            bounds.append(1.0)
        for number, group in enumerate(self.groups):
            rows.append(self.time(number))
            bounds.append(min(group.quota, 1e6))
            row = -self.time(number)
            if number not in least and level:
                row[-1] = group.weight
            rows.append(row)
            bounds.append(-least.get(number, 0.0) + 1e-9)
        allowed = [(0, 1 if cpu in group.cpus else 0) for group in self.groups for cpu in self.cpus]
        found = linprog(-goal, A_ub=np.array(rows), b_ub=bounds, bounds=[*allowed, (0, 1e6)])
        assert found.status == 0
        return float(-found.fun)


def by_linear_programs(groups: Sequence[BusyGroup]) -> list[float]:
    """Raise the level of all groups; those that can have no more than it stay there."""
    programs, fixed = Programs(groups), dict[int, float]()
    while len(fixed) < len(groups):
        height = np.zeros(programs.size)
        height[-1] = 1
        level = programs.most(height, fixed, level=True)
        promised = {n: level * g.weight for n, g in enumerate(groups)} | fixed
        stuck = {
            number: time
            for number, time in promised.items()
            if number not in fixed
            and programs.most(programs.time(number), promised, level=False) < time + 1e-6
        }
        assert stuck
        fixed |= stuck
    return [fixed[number] for number in range(len(groups))]


def random_groups(random: np.random.Generator) -> list[BusyGroup]:
    cpus = int(random.integers(1, 7))
    groups = []
    for _ in range(int(random.integers(1, 7))):
        density = random.choice([0.3, 0.6, 1.0])
        mine = [cpu for cpu in range(cpus) if random.random() < density]
        weight = int(math.exp(random.uniform(1, 8)))
        quota = math.inf if random.random() < 0.5 else float(random.uniform(0.01, 2))
        groups.append(BusyGroup(mine or [int(random.integers(cpus))], weight, quota))
    return groups


@pytest.mark.parametrize("seed", range(20))
def test_any_groups_have_what_linear_programs_find(seed: int) -> None:
    groups = random_groups(np.random.default_rng(seed))
    assert cpu_time(groups) == pytest.approx(by_linear_programs(groups), abs=1e-6)


def test_groups_that_share_all_cpus_have_them_by_weight() -> None:
    assert cpu_time([BusyGroup(range(4), 300), BusyGroup(range(4), 100)]) == [3, 1]


def test_what_a_quota_leaves_goes_to_the_others_by_weight() -> None:
    groups = [BusyGroup(range(4), 200, 0.5), BusyGroup(range(4), 200), BusyGroup(range(4), 50)]
    assert cpu_time(groups) == pytest.approx([0.5, 2.8, 0.7])


def test_a_group_pinned_to_one_cpu_has_no_more_than_that() -> None:
    groups = [BusyGroup([0], 900), BusyGroup([0], 100), BusyGroup([0, 1, 2], 100)]
    assert cpu_time(groups) == pytest.approx([0.9, 0.1, 2.0])


def test_time_of_its_own_counts_towards_the_weight_of_a_group() -> None:
    groups = [BusyGroup([0, 1], 1365), BusyGroup([1], 683)]
    assert cpu_time(groups) == pytest.approx([1.333, 0.667], abs=1e-3)


def test_a_group_without_cpus_has_no_time() -> None:
    assert cpu_time([BusyGroup([], 100), BusyGroup([0], 100)]) == [0, 1]
    assert cpu_time([]) == []
