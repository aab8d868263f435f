"""The course of a local run: what everybody held, paid and used, and what happened when.

It is one more document of a record, of a kind that no cluster has.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict

from walras_api.api_object import quantity
from walras_api.contract import API_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from walras_cli.local.state import JobState

Document = dict[str, Any]
Figures = dict[str, float | None]

MOST_SAMPLES = 720
"""Samples above which every second one is dropped, so that the first is kept however long it is."""

MOST_EVENTS = 200

KIND = "LocalRun"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CourseSample(_Part):
    """Figures at one time, by name of the user, job (namespace/name) or node, and of the figure.

    Attributes:
        time: Seconds since 1970.
        user: Figures of users: cores that they are entitled to, bought, held and used.
        job: Figures of jobs: likewise, with the price of a core and the predicted speedup.
        node: Price of the node's cores, and how many are sold.
    """

    time: float
    user: dict[str, Figures]
    job: dict[str, Figures]
    node: dict[str, Figures]


class CourseEvent(_Part):
    """Something that happened, in a sentence.

    Attributes:
        time: Seconds since 1970.
        what: What happened.
    """

    time: float
    what: str


class LocalRun(_Part):
    """The course as a document.

    Attributes:
        shown: Time of the objects in the record, in seconds since 1970.
        samples: Samples, oldest first.
        events: Last events, oldest first.
    """

    apiVersion: str = API_VERSION  # noqa: N815 - the key of all documents
    kind: Literal["LocalRun"] = "LocalRun"
    metadata: dict[str, str]
    shown: float
    samples: tuple[CourseSample, ...]
    events: tuple[CourseEvent, ...]


@dataclass(slots=True)
class Course:
    """Collects samples and events while a run goes on."""

    _samples: list[CourseSample] = field(default_factory=list)
    _events: list[CourseEvent] = field(default_factory=list)
    _spacing: float = 0.0
    _running: frozenset[str] = frozenset()
    _cpu: tuple[float, Mapping[str, float]] = (0.0, {})

    def keep_event(self, time: float, what: str) -> None:
        """Keep an event."""
        self._events = [*self._events, CourseEvent(time=time, what=what)][-MOST_EVENTS:]

    def follow(self, time: float, jobs: Mapping[str, JobState]) -> None:
        """Keep which jobs have ended since the last time; the run tells which have started."""
        running = {each.job.title for each in jobs.values() if each.running is not None}
        for title in sorted(self._running - running):
            self.keep_event(time, f"{title} ended")
        self._running = frozenset(running)

    def take(self, time: float, documents: Iterable[Document], jobs: Iterable[JobState]) -> None:
        """Take a sample of the documents of the run, if the last one is long enough ago."""
        if self._samples and time - self._samples[-1].time < self._spacing:
            return
        self._samples.append(sample_of(time, documents, self._used(time, jobs)))
        if len(self._samples) > MOST_SAMPLES:
            del self._samples[1::2]
            self._spacing = 2 * (self._spacing or 1.0)

    def _used(self, time: float, jobs: Iterable[JobState]) -> dict[str, float]:
        """Return the cores that jobs used since the last sample, by their CPU time."""
        before, known = self._cpu
        seconds = {
            each.job.title: each.cpu_seconds if each.place is None else each.place.cpu_seconds()
            for each in jobs
        }
        self._cpu = time, seconds
        return {
            title: max(now - known[title], 0.0) / (time - before)
            for title, now in seconds.items()
            if title in known and time > before
        }

    def document(self, shown: float) -> Document:
        """Return the course, beside the objects of a time."""
        return LocalRun(
            metadata={"name": "course"},
            shown=shown,
            samples=tuple(self._samples),
            events=tuple(self._events),
        ).model_dump(mode="json")


def sample_of(
    time: float, documents: Iterable[Document], used: Mapping[str, float]
) -> CourseSample:
    """Return the figures in a run's documents, and the cores that jobs use (pure)."""
    user: dict[str, Figures] = {}
    job: dict[str, Figures] = {}
    node: dict[str, Figures] = {}
    for each in documents:
        name, status = each["metadata"]["name"], each.get("status") or {}
        if each["kind"] == "Entitlement" and (cores := status.get("cores")):
            user[name] = {key: float(cores[key]) for key in ("entitled", "bought", "held")}
        elif each["kind"] == "MarketJob" and status:
            title = f"{each['metadata']['namespace']}/{name}"
            job[title] = _of_job(status, used.get(title))
            owner = user.setdefault(each["spec"]["entitlement"], {})
            if title in used:
                owner["used"] = (owner.get("used") or 0.0) + used[title]
        elif each["kind"] == "Market":
            for sold in status.get("prices") or ():
                node.setdefault(sold["node"], {})["price"] = float(sold["price"])
        elif each["kind"] == "NodeAllocation":
            grants = each["spec"]["grants"]
            node.setdefault(name, {})["sold"] = float(sum(quantity(x["cores"]) for x in grants))
    return CourseSample(time=time, user=user, job=job, node=node)


def _of_job(status: Mapping[str, Any], used: float | None) -> Figures:
    bought, spend, speedup = (
        None if status.get(key) is None else float(status[key])
        for key in ("bought", "spend", "speedup")
    )
    held = [float(pod["held"]) for pod in status.get("pods") or () if pod.get("held") is not None]
    return {
        "held": sum(held) if held else None,
        "bought": bought,
        "used": used,
        "price": spend / bought if spend is not None and bought else None,
        "speedup": speedup,
    }
