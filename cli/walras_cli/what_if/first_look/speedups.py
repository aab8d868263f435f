"""Facts: the parallel fractions that are known of jobs: in a file, or of SpeedupProfiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from walras_api.contract import API_VERSION
from walras_api.job_inputs import speedup_of
from walras_api.kinds import MarketJob
from walras_service.failures import BadInput
from walras_service.yaml_documents import YamlError, documents_in

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from walras_api.kinds import SpeedupProfile


def fractions_in(file: Path) -> dict[str, float]:
    """Return the parallel fractions in a file of lines such as ``vision/train: 0.93``.

    The name before the colon is that of a job with its namespace, or of a namespace for all of its
    jobs.

    Raises:
        BadInput: The file cannot be read, or has something else.
    """
    try:
        [document] = documents_in(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"--speedups {file}: cannot be read: {error.strerror}") from error
    except (YamlError, UnicodeDecodeError, ValueError) as error:
        raise BadInput(f"--speedups {file}: {error}") from error
    if not isinstance(document, dict):
        raise BadInput(f"--speedups {file}: write a line for each job, such as vision/train: 0.93")
    fractions = {}
    for name, text in document.items():
        try:
            fraction = float(text)
        except (TypeError, ValueError):
            fraction = 0.0
        if not 0 < fraction <= 1:
            raise BadInput(
                f"--speedups {file}: {name}: is {text!r}; write a parallel fraction above 0 and at "
                f"most 1, such as 0.93"
            )
        fractions[name] = fraction
    return fractions


def fractions_of(profiles: Iterable[SpeedupProfile]) -> dict[str, float]:
    """Return what SpeedupProfiles say of the jobs that have their names.

    Raises:
        BadInput: The measurements of one give no speedup.
    """
    fractions = {}
    for profile in profiles:
        namespace, name = profile.metadata.namespace, profile.metadata.name
        job = MarketJob.model_validate(
            {
                "apiVersion": API_VERSION,
                "kind": "MarketJob",
                "metadata": {"name": name, "namespace": namespace},
                "spec": {
                    "entitlement": namespace,
                    "profile": name,
                    "targetRef": {"apiVersion": "v1", "kind": "Pod", "name": name},
                },
            }
        )
        try:
            speedup = speedup_of(job, {(namespace, name): profile})
        except ValueError as error:
            raise BadInput(str(error)) from error
        if speedup.source != "Assumed":
            fractions[f"{namespace}/{name}"] = speedup.fraction
    return fractions
