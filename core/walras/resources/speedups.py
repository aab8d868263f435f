"""What a SpeedupProfile document says about a program's speedup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from walras.profile import Sample
from walras.sizes import WHOLE, Size

KIND = "SpeedupProfile"


def samples_from_document(document: Mapping[str, Any]) -> tuple[Sample, ...]:
    """The samples that a document's measurements hold.

    Raises:
        ValueError: Not a SpeedupProfile, or a measurement that cannot be read; names the field.
    """
    if document.get("kind") != KIND:
        raise ValueError(f"kind {document.get('kind')!r}: a {KIND} is needed")
    spec = document.get("spec")
    measurements = spec.get("measurements") if isinstance(spec, Mapping) else None
    if not isinstance(measurements, Sequence) or isinstance(measurements, str):
        # A document is a user's input, whatever is wrong with it.
        raise ValueError("spec.measurements: a list of measurements is needed")  # noqa: TRY004
    return tuple(_sample(index, entry) for index, entry in enumerate(measurements))


def _sample(index: int, entry: object) -> Sample:
    where = f"spec.measurements[{index}]"
    if not isinstance(entry, Mapping):
        raise ValueError(f"{where}: a measurement has cores, dataSize and seconds")  # noqa: TRY004
    try:
        size = Size.parse(str(entry.get("dataSize", WHOLE)))
        seconds = tuple(float(value) for value in entry["seconds"])
        return Sample(int(entry["cores"]), float(size.value), seconds)
    except KeyError as error:
        raise ValueError(f"{where}: {error.args[0]} is missing") from error
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: {error}") from error
