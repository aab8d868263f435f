"""Pure: everything that one viewer may see of a cluster at one moment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from walras_view.documents import Shown
from walras_view.facts import Facts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walras_api.speedup_profile import SpeedupProfile
    from walras_dashboard.samples import FigureSample
    from walras_view.first_look import FirstLook

ProfileKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Origin(Shown):
    """The source of a state.

    Attributes:
        kind: A live cluster, a dump of a cluster in a file, or a local run.
        name: Address of the API server, or names of files.
        live: Whether it changes by itself.
    """

    kind: Literal["cluster", "file", "local"]
    name: str
    live: bool


@dataclass(frozen=True, slots=True)
class Moved(Shown):
    """A change of who has which CPUs of a node.

    Attributes:
        time: When it was seen (RFC 3339).
        what: The change in a sentence.
    """

    time: str
    what: str


@dataclass(frozen=True, slots=True)
class MarketState:
    """Everything that one viewer may see.

    Attributes:
        origin: Source of the state.
        revision: Number that grows with each change.
        facts: Facts that ``walras top`` and ``walras explain`` would read.
        profiles: SpeedupProfiles by namespace and name, as far as they can be read.
        moved: Last changes of CPUs by node, newest first.
        notes: Lines about figures that are left out, besides those of the facts.
        look: What a cluster without Walras would have with it; None of one with Walras.
        course: Figures over the time that a file has recorded; empty if it has recorded none.
        events: Last events that a file has recorded, newest first.
    """

    origin: Origin
    revision: int = 1
    facts: Facts = field(default_factory=Facts)
    profiles: Mapping[ProfileKey, SpeedupProfile] = field(default_factory=dict)
    moved: Mapping[str, tuple[Moved, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    look: FirstLook | None = None
    course: tuple[FigureSample, ...] = ()
    events: tuple[Moved, ...] = ()
