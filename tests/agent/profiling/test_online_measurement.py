"""A measurement on a simulated node, whose program speeds up as Amdahl's law says."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from walras.speedup.amdahls_law import speedup
from walras_agent.cpuset import CpuSet
from walras_agent.daemon.report import profiling_status
from walras_agent.profiling.counters import CounterError
from walras_agent.profiling.instruments import Meter
from walras_agent.profiling.profiler import Profiler
from walras_agent.profiling.request import MeasurementRequest, ProgressSample
from walras_agent.profiling.samples import fit_samples
from walras_agent.status import NodeStatus, PodStatus
from walras_agent.waiting import Thread, WaitingTimes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from walras_agent.node_plan import Mode
    from walras_agent.profiling.request import MeasurementReport, Source

POD = "/kubepods/podaa"
NUMBER = re.compile(r"[0-9]{1,40}(\.[0-9]{1,40})?")


LOOK = 0.01
"""Seconds between two looks at threads."""


@dataclass
class Looks:
    """Looks at a program's threads until they are stopped."""

    times: WaitingTimes
    stopped: bool = False

    def stop(self) -> WaitingTimes:
        self.stopped = True
        return self.times


@dataclass
class Node:
    """One pod with a program, and a loop around the profiler that never sleeps.

    Attributes:
        fraction: Parallel fraction of the program.
        pace: Progress of the program in a second on one core.
        drift: Part of its pace by which the program becomes faster in a second.
        granted: Cores of its own that the pod has.
        slowness: Seconds that its counter takes to answer, with the value halfway.
        stolen: Part of its first core that another program takes.
        threads: Its threads; none unless something is stolen.
        looks: Looks at them that were begun.
        happening: Function to call right before the step at a time, by time.
    """

    fraction: float = 0.9
    pace: float = 1.0
    drift: float = 0.0
    granted: int = 8
    slowness: float = 0.0
    now: float = 1000.0
    cores: int = 8
    done: float = 0.0
    broken: str = ""
    stuck: str = ""
    refused: str = ""
    mode: Mode = "enforce"
    repaired: tuple[str, ...] = ()
    first_cpu: int = 0
    bytes_per_step: float = 0.0
    gone: bool = False
    opened: int = 0
    closed: int = 0
    limited: Mapping[str, int] = field(default_factory=dict)
    stolen: float = 0.0
    threads: dict[int, Thread] = field(default_factory=dict)
    looks: list[Looks] = field(default_factory=list)
    source: Source = "cpuTime"

    def __post_init__(self) -> None:
        self.began = self.now
        self.profiler = Profiler(self.open)
        self.happening: dict[float, Callable[[], None]] = {}

    def open(self, request: MeasurementRequest) -> Meter:
        self.opened += 1
        traffic = Bus(self) if self.bytes_per_step else None
        return Meter(POD, self, traffic, watch=self.watch, clock=lambda: self.now)

    def watch(self, cpus: int) -> Looks:
        looks = Looks(WaitingTimes(cpus, None))
        looks.times.look(self.now, dict(self.threads))
        self.looks.append(looks)
        return looks

    def read(self) -> float:
        if self.broken:
            raise CounterError(self.broken)
        self.elapse(self.slowness / 2)
        answer = self.done
        self.elapse(self.slowness / 2)
        return answer

    def close(self) -> None:
        self.closed += 1

    def elapse(self, seconds: float) -> None:
        """Let the program work; its rate changes steadily with time."""
        if self.stolen:
            self.run_beside_another(seconds)
            return
        middle = self.now + seconds / 2 - self.began
        rate = self.pace * float(speedup(self.cores, self.fraction)) * (1 + self.drift * middle)
        self.done += rate * seconds
        self.now += seconds

    def run_beside_another(self, seconds: float) -> None:
        """Let a program run that has one thread for each of its cores, all independent.

        Another program takes a part of its first core. On one core, all threads share it.
        """
        left = seconds
        while left > 0:
            step = min(LOOK, left)
            for thread in range(self.granted):
                own = step * (1 - self.stolen * (thread % self.cores == 0))
                own *= self.cores / self.granted
                known = self.threads.get(thread, Thread(0.0, 0.0, could_run=True))
                self.threads[thread] = Thread(known.ran + own, known.waited + step - own, True)
                self.done += self.pace * own
            self.now += step
            left -= step
            for looks in self.looks:
                looks.times.look(self.now, dict(self.threads))

    def move(self) -> None:
        """Give the pod other CPUs."""
        self.first_cpu += 8

    def step(self, request: MeasurementRequest | None) -> None:
        """One turn of the agent's loop."""
        self.profiler.offer(request, self.now)
        self.limited = self.profiler.limits(self.now)
        asked = self.limited.get("aa")
        limit = None if asked is None or self.stuck else min(asked, self.granted)
        self.cores = limit or self.granted
        pod = PodStatus(
            "aa",
            "default/aa",
            None if self.gone else CpuSet(range(self.first_cpu, self.first_cpu + self.cores)),
            None,
            "Absent" if self.gone else "Enforced",
            self.stuck or ("it has no container here" if self.gone else ""),
            exclusive=CpuSet(range(self.granted)),
            limit=limit,
        )
        status = NodeStatus(1, self.mode, self.refused, (pod,), repaired=self.repaired)
        self.repaired = ()
        self.profiler.update(status, self.now)

    def run(
        self, request: MeasurementRequest | None, seconds: float = math.inf
    ) -> MeasurementReport:
        """Go round until nothing is due any more, or for some time."""
        end = self.now + seconds
        while True:
            self.step(request)
            wake = self.profiler.next_wake(self.now)
            if wake is None or wake > end:
                break
            soon = min((at for at in self.happening if at < wake), default=wake)
            self.elapse(max(soon - self.now, 0.0))
            self.happening.pop(soon, lambda: None)()
        report = self.profiler.report
        assert report is not None
        return report


@dataclass
class Bus:
    """Counter of the bytes that a node has moved from and to its memory."""

    node: Node
    closed: int = 0

    def read(self) -> float | None:
        return None if self.node.now < 1010 else self.node.done * self.node.bytes_per_step

    def close(self) -> None:
        self.closed += 1


REQUEST = MeasurementRequest("first", "aa")


@given(
    fraction=st.floats(0, 1),
    granted=st.integers(2, 64),
    repeats=st.integers(1, 4),
    seconds=st.floats(0.1, 10),
)
def test_the_fraction_of_a_program_is_found(
    fraction: float, granted: int, repeats: int, seconds: float
) -> None:
    node = Node(fraction, granted=granted)
    request = MeasurementRequest(
        "r", "aa", sample_seconds=seconds, repeats=repeats, lease_seconds=1e4
    )
    report = node.run(request)
    assert report.state == "Complete", report.reason
    assert report.fit is not None
    assert report.fit.mean == pytest.approx(fraction, abs=1e-6)
    assert report.fit.variance == pytest.approx(0, abs=1e-9)
    assert max(report.fit.by_cores) == granted
    assert len(report.samples) == report.planned == repeats * (1 + len(report.fit.by_cores))
    assert all(sample.seconds == pytest.approx(seconds) for sample in report.samples)


@pytest.mark.parametrize("stolen", [0.25, 0.5, 0.8])
def test_what_others_take_of_a_pods_core_is_no_part_of_its_speedup(stolen: float) -> None:
    """On one core the pod has but a part; on four, it lacks little: F by rates is above 1."""
    node = Node(granted=4, cores=4, stolen=stolen, source="file")
    report = node.run(REQUEST)
    assert report.state == "Complete", report.reason
    rates = {each.cores: each.progress / (each.seconds + each.waited) for each in report.samples}
    assert rates[4] / rates[1] > 1.2 * 4
    assert report.fit is not None
    assert report.fit.mean == pytest.approx(1.0, abs=0.02)
    assert all(each.seconds + each.waited == pytest.approx(2.0) for each in report.samples)
    assert all(each.stopped for each in node.looks), "or threads look at the pod for ever"
    told = profiling_status(report)
    assert [float(each.error or 0) for each in told.samples] == pytest.approx(
        [each.error for each in report.samples], abs=1e-6
    )


def test_no_look_goes_on_after_a_measurement_that_ends_early() -> None:
    node = Node(granted=4, cores=4, stolen=0.5, source="file")
    node.run(MeasurementRequest("r", "aa", lease_seconds=6))
    assert node.looks
    assert all(each.stopped for each in node.looks)
    again = Node(granted=4, cores=4, stolen=0.5, source="file")
    again.happening = {1001.5 + second: again.move for second in range(9)}
    again.run(REQUEST)
    assert all(each.stopped for each in again.looks)


def test_a_counter_that_claims_an_endless_speedup_ends_no_agent() -> None:
    """On two cores, F is 2 then, and no time is left by Amdahl's law."""
    found = fit_samples([ProgressSample(1, 2.0, 1.0), ProgressSample(2, 2.0, 1e18)])
    assert found is not None
    assert found.by_cores == {2: 2.0}
    assert any("more than 2-fold" in each for each in found.warnings)


@given(fraction=st.floats(0.2, 1), drift=st.floats(-0.002, 0.01))
def test_steady_drift_hardly_shows(fraction: float, drift: float) -> None:
    """A pass upwards alone would take all of the drift for speedup."""

    def error(repeats: int) -> float:
        request = MeasurementRequest("r", "aa", repeats=repeats, lease_seconds=1e4)
        report = Node(fraction, drift=drift).run(request)
        assert report.fit is not None
        return abs(report.fit.mean - fraction)

    assert error(repeats=4) <= max(0.2 * error(repeats=1), 1e-6)


def test_core_counts_that_are_asked_for_are_measured_and_one_core_too() -> None:
    node = Node()
    report = node.run(MeasurementRequest("r", "aa", cores=(6, 3), repeats=2))
    assert [sample.cores for sample in report.samples] == [1, 3, 6, 6, 3, 1]
    assert node.limited == {}


def test_afterwards_the_pod_has_all_its_cores_and_the_counters_are_closed() -> None:
    node = Node()
    report = node.run(REQUEST)
    assert report.state == "Complete"
    assert node.limited == {}
    assert node.cores == node.granted
    assert node.opened == node.closed == 1


def test_request_that_is_done_is_not_made_again() -> None:
    node = Node()
    report = node.run(REQUEST)
    assert node.run(REQUEST, seconds=100) == report
    assert node.opened == 1
    again = Profiler(node.open)
    again.skip("first")
    again.offer(REQUEST, node.now)
    assert again.report is None
    assert again.limits(node.now) == {}


def test_progress_is_counted_on_all_cores_and_none_is_taken_away() -> None:
    node = Node()
    seen = set()
    node.happening = {1000.0 + second: lambda: seen.add(node.cores) for second in range(20)}
    report = node.run(MeasurementRequest("first", "aa", purpose="Progress"))
    assert (report.state, report.fit) == ("Complete", None)
    assert [sample.cores for sample in report.samples] == [8, 8, 8]
    assert seen == {8}
    assert report.samples[0].progress == pytest.approx(2.0 * float(speedup(8, 0.9)))
    alone = Node(granted=1, cores=1)
    report = alone.run(MeasurementRequest("first", "aa", purpose="Progress"))
    assert [sample.cores for sample in report.samples] == [1, 1, 1]


def test_lease_ends_a_measurement_that_nobody_renews() -> None:
    node = Node()
    request = MeasurementRequest("r", "aa", lease_seconds=20)
    report = node.run(request)
    assert report.state == "Expired"
    assert node.now == pytest.approx(1020)
    assert node.limited == {}
    assert node.closed == 1
    assert 0 < len(report.samples) < report.planned
    assert report.fit is not None
    assert report.fit.mean == pytest.approx(0.9)


def test_renewed_lease_lets_it_come_to_its_end() -> None:
    node = Node()
    node.run(MeasurementRequest("r", "aa", lease_seconds=20), seconds=15)
    node.run(MeasurementRequest("r", "aa", lease_seconds=20, renewals=1), seconds=15)
    report = node.run(MeasurementRequest("r", "aa", lease_seconds=20, renewals=2))
    assert report.state == "Complete", report.reason


def test_lease_ends_without_any_further_step() -> None:
    """A loop that is held up elsewhere finds no limits at the time of its next step."""
    node = Node()
    node.run(REQUEST, seconds=5)
    assert node.profiler.limits(node.now) != {}
    assert node.profiler.limits(node.now + 120) == {}


def test_request_withdrawn_gives_the_cores_back() -> None:
    node = Node()
    node.run(REQUEST, seconds=10)
    report = node.run(None)
    assert (report.state, node.limited, node.closed) == ("Cancelled", {}, 1)
    assert report.samples


def test_another_request_takes_the_place_of_the_first() -> None:
    """A measurement ends when its request does, and never are two pods measured at once."""
    node = Node()
    node.run(REQUEST, seconds=10)
    report = node.run(MeasurementRequest("second", "aa"))
    assert (report.id, report.state) == ("second", "Complete")
    assert node.opened == node.closed == 2


def test_agent_that_was_killed_limits_nobody() -> None:
    node = Node()
    node.run(REQUEST, seconds=10)
    node.profiler = Profiler(node.open)
    node.step(None)
    assert node.limited == {}
    assert node.profiler.next_wake(node.now) is None


@dataclass(frozen=True)
class Trouble:
    """A failure ten seconds into a measurement, and the message about it."""

    change: Mapping[str, object]
    said: str

    def happen(self, node: Node) -> None:
        for name, value in self.change.items():
            setattr(node, name, value)


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(Trouble({"gone": True}, "no container"), id="the pod is gone"),
        pytest.param(Trouble({"granted": 4}, "holds 4 whole cores now"), id="its grant was cut"),
        pytest.param(Trouble({"granted": 0}, "holds 0 whole cores now"), id="its grant was taken"),
        pytest.param(Trouble({"stuck": "it hangs"}, "it hangs"), id="the kernel refuses"),
        pytest.param(Trouble({"broken": "no file"}, "no file"), id="the counter is not read"),
        pytest.param(Trouble({"pace": 0.0}, "did not move"), id="the job does nothing"),
        pytest.param(Trouble({"refused": "static CPU manager"}, "static"), id="writes are refused"),
        pytest.param(Trouble({"mode": "observe"}, "only observes"), id="observe mode"),
    ],
)
def test_trouble_ends_it_with_the_reason(trouble: Trouble) -> None:
    node = Node()
    node.run(REQUEST, seconds=10)
    trouble.happen(node)
    report = node.run(REQUEST)
    assert report.state == "Failed"
    assert trouble.said in report.reason
    assert node.limited == {}
    assert node.closed == 1
    assert node.now < 1000 + REQUEST.lease_seconds


def test_counter_that_goes_back_is_not_believed() -> None:
    node = Node()

    def restart() -> None:
        node.done -= 1000.0

    for at in range(1, 60):
        node.happening[1000.0 + at] = restart
    report = node.run(REQUEST)
    assert report.state == "Failed"
    assert "went back" in report.reason


@pytest.mark.parametrize(("slowness", "least"), [(0.05, 2.0), (0.2, 4.0), (0.35, 7.0)])
def test_samples_of_a_counter_that_answers_slowly_are_longer(slowness: float, least: float) -> None:
    """The value is from some moment while it answers: within 5 % of the sample's length."""
    report = Node(slowness=slowness).run(REQUEST)
    assert report.state == "Complete", report.reason
    assert all(least - 1e-9 <= each.seconds <= least + 1.0 for each in report.samples)
    assert report.fit is not None
    assert report.fit.mean == pytest.approx(0.9)


def test_counter_that_takes_as_long_as_a_sample_to_answer_is_no_use() -> None:
    report = Node(slowness=1.0).run(REQUEST)
    assert report.state == "Failed"
    assert "took 1 s to answer" in report.reason


@pytest.mark.parametrize("repaired", [f"{POD}/container", POD], ids=["CPUs", "quota"])
def test_sample_that_was_disturbed_is_taken_again(repaired: str) -> None:
    node = Node()

    def disturb() -> None:
        node.done += 1e6
        node.repaired = (repaired,)

    node.happening[1011.1] = disturb
    report = node.run(REQUEST)
    assert report.state == "Complete"
    assert len(report.samples) == report.planned
    assert max(sample.progress for sample in report.samples) < 100


def test_sample_during_which_a_plan_moved_the_pod_is_taken_again() -> None:
    node = Node()

    def move() -> None:
        node.done += 1e6
        node.first_cpu = 8

    node.happening[1011.1] = move
    report = node.run(REQUEST)
    assert report.state == "Complete"
    assert len(report.samples) == report.planned
    assert max(sample.progress for sample in report.samples) < 100


def test_cpus_that_cannot_be_set_at_all_are_not_waited_for_long() -> None:
    node = Node(stuck="it waits for CPUs")
    report = node.run(REQUEST)
    assert report.state == "Failed"
    assert "it waits for CPUs" in report.reason
    assert node.now == pytest.approx(1030)
    assert node.opened == 0


def test_what_others_do_to_other_pods_is_no_disturbance() -> None:
    node = Node()

    def disturb() -> None:
        node.repaired = ("/kubepods/podbb/container", "/kubepods/podbb", f"{POD}b")

    for at in range(1, 60):
        node.happening[1000.25 + at] = disturb
    report = node.run(REQUEST)
    assert report.state == "Complete"
    assert sum(sample.seconds for sample in report.samples) == pytest.approx(24)
    assert node.now < 1000 + 12 * 2.6


@pytest.mark.parametrize(
    ("granted", "cores", "said"),
    [
        pytest.param(1, None, "two or more", id="one core has no speedup"),
        pytest.param(4, (2, 8), "8 are requested", id="more than it holds"),
        pytest.param(4, (1,), "only one core", id="nothing to compare with"),
    ],
)
def test_request_that_cannot_be_met_is_refused(
    granted: int, cores: tuple[int, ...] | None, said: str
) -> None:
    node = Node(granted=granted)
    report = node.run(MeasurementRequest("r", "aa", cores=cores))
    assert report.state == "Failed"
    assert said in report.reason
    assert node.opened == 0


def test_memory_bandwidth_is_that_on_most_cores_where_it_is_known() -> None:
    """The processor has lost count in the first samples, among them one on eight cores."""
    node = Node(fraction=1.0, bytes_per_step=1e9)
    report = node.run(REQUEST)
    assert report.memory_bandwidth == pytest.approx(8e9)
    assert [sample.memory_bytes is None for sample in report.samples] == [True] * 4 + [False] * 8
    assert Node().run(REQUEST).memory_bandwidth is None


@given(
    jumps=st.lists(
        st.sampled_from([1e308, -1e308, 1.7e308, 5e-324, 1e-300, 1e35, math.inf, -math.inf, 2.0]),
        min_size=1,
        max_size=40,
    )
)
@example([1e308, 5e-324])
@example([-1e308, 1.7e308, 1.7e308])
def test_whatever_a_jobs_counter_says_the_agent_goes_on(jumps: list[float]) -> None:
    """A job's counter is its own affair; what it cannot have counted ends its measurement."""
    node = Node()

    def jump(amount: float) -> Callable[[], None]:
        def do() -> None:
            node.done = amount

        return do

    for number, amount in enumerate(jumps):
        node.happening[1001.3 + 2.5 * number] = jump(amount)
    report = node.run(REQUEST)
    assert report.state in {"Complete", "Failed"}
    assert all(math.isfinite(each.progress) for each in report.samples)
    told = profiling_status(report)
    assert all(NUMBER.fullmatch(each.progress) for each in told.samples)
    assert node.limited == {}
    assert node.closed == 1


def test_traffic_that_goes_back_is_not_known() -> None:
    """The counters of a cache go when its last CPU goes offline."""
    node = Node(bytes_per_step=1e9)

    def less() -> None:
        node.bytes_per_step /= 2

    node.happening = {1000.0 + second: less for second in range(12, 40)}
    report = node.run(REQUEST)
    known = [each.memory_bytes for each in report.samples if each.memory_bytes is not None]
    assert all(amount >= 0 for amount in known)
    assert (report.memory_bandwidth or 0) >= 0
