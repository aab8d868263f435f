"""A cluster accepts Walras's own documents and its examples as they are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from admission import admit, read_definitions, schema_of
from walras.speedup.diagnosis import diagnose
from walras.speedup.profile import fit_profile
from walras.speedup.sizes import parse_sizes
from walras_api.speedup_profile_status import SpeedupProfileStatus
from walras_profiler.campaign import Measurement, samples_of
from walras_profiler.document import profile_document

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
SCHEMAS = {kind: schema_of(each) for kind, each in read_definitions().items()}


def profiled(sizes: str) -> dict[str, Any]:
    """Return what `walras profile -o yaml` writes of a program of F = 0.8."""
    measurements = [
        Measurement(
            cores,
            size,
            seconds=(1 + 10 * float(size.value)) * (0.2 + 0.8 / cores),
            user_seconds=1.5,
            peak_memory=(64 << 20) + 1,
            counters={"instructions": 1000, "cache-misses": 7},
        )
        for size in parse_sizes(sizes)
        for cores in (1, 2, 4)
    ]
    samples = samples_of(measurements)
    fit = fit_profile(samples)
    return profile_document("solve", "lab", measurements, fit, diagnose(samples, fit))


@pytest.mark.parametrize("sizes", ["10%,20%,40%,50%", "100,200,400"])
def test_a_profile_loses_nothing_neither_its_spec_nor_its_status(sizes: str) -> None:
    written = profiled(sizes)
    answer = admit(written, SCHEMAS["SpeedupProfile"])
    assert answer.problems == []
    assert answer.stored == written
    status = SpeedupProfileStatus.read(written["status"])
    assert status.parallel_fraction == written["status"]["parallelFraction"]


def documents(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            yield from document["items"] if document["kind"] == "List" else [document]


@pytest.mark.parametrize(
    "folder", sorted(ROOT.glob("examples/*")), ids=lambda folder: str(folder.name)
)
def test_examples_can_be_applied(folder: Path) -> None:
    found = list(documents(folder))
    assert found
    for document in found:
        if document["apiVersion"] == "walras.dev/v1alpha1":
            assert admit(document, SCHEMAS[document["kind"]]).problems == []
