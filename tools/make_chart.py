"""Generate the JSON schema of helm/walras/values.yaml, and the table of values in docs/chart.md.

    python tools/make_chart.py [--check]

With --check, write nothing, and fail if a file is out of date.

The comment above a value is its description in both. Types are inferred from the values, or given
in `SHAPES`. The schema of `market.spec` is that of the Market's CustomResourceDefinition.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from walras_api.api_object import QUANTITY
from walras_api.definitions import DEFINITIONS, definition_document

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
CHART = ROOT / "helm" / "walras"
PAGE = ROOT / "docs" / "chart.md"
BAR = "\\|"
MARKS = ("<!-- values -->\n", "<!-- end of values -->\n")

Schema = dict[str, Any]
Path_ = tuple[str, ...]

_TEXTS: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
_OBJECTS: Schema = {"type": "array", "items": {"type": "object"}}
_ANY: Schema = {"type": "object"}  # Kubernetes' own, which its API server checks
_PORT: Schema = {"type": "integer", "minimum": 1, "maximum": 65535}
_SECONDS: Schema = {"type": "integer", "minimum": 1}
_FOLDER: Schema = {"type": "string", "pattern": "^/"}
_QUANTITY: Schema = {"type": ["string", "number"], "pattern": f"^{QUANTITY.pattern}$", "minimum": 0}
_QUANTITIES: Schema = {"type": ["object", "null"], "additionalProperties": _QUANTITY}
_RESOURCES: Schema = {
    "type": "object",
    "properties": {"requests": _QUANTITIES, "limits": _QUANTITIES, "claims": _OBJECTS},
    "additionalProperties": False,
}
_NAMES: Schema = {"type": "array", "uniqueItems": True, "items": {"type": "string", "minLength": 1}}
_AUTO: Schema = {"enum": ["auto", True, False]}

SHAPES: dict[str, Schema] = {
    "commonLabels": _TEXTS,
    "image.pullPolicy": {"enum": ["Always", "IfNotPresent", "Never"]},
    "image.pullSecrets": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"name": {"type": "string"}},
            "required": ["name"],
            "additionalProperties": False,
        },
    },
    "image.*.repository": {"type": "string", "minLength": 1},
    "image.*.digest": {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
    "operator.replicas": {"type": "integer", "minimum": 0},
    "operator.leaseSeconds": {"type": "integer", "minimum": 3, "maximum": 3600},
    "operator.debounce.*": {"type": "number", "minimum": 0, "maximum": 60},
    "agent.mode": {"enum": ["", "enforce", "observe"]},
    "agent.periodSeconds": {"type": "number", "minimum": 0.1, "maximum": 3600},
    "agent.releaseAfterSeconds": {"type": "number", "minimum": 1, "maximum": 3600},
    "agent.stateFolder": _FOLDER,
    "agent.kubelet.folder": {"type": "string", "pattern": "^(/.*)?$"},
    "agent.kubelet.configFolder": {"type": "string", "pattern": "^(/.*)?$"},
    "agent.kubelet.cgroupDriver": {"enum": ["", "cgroupfs", "systemd"]},
    "agent.kubelet.cgroupRoot": {"type": "string", "pattern": "^(/.*)?$"},
    "agent.reservedCpus": {"type": ["string", "null"], "pattern": r"^(\d+(-\d+)?(,\d+(-\d+)?)*)?$"},
    "agent.maxUnavailable": {
        "anyOf": [
            {"type": "integer", "minimum": 1},
            {"type": "string", "pattern": "^[1-9][0-9]?%$|^100%$"},
        ]
    },
    "*.port": _PORT,
    "dashboard.probePort": _PORT,
    "*.log.format": {"enum": ["json", "text"]},
    "*.resources": _RESOURCES,
    "*.affinity": _ANY,
    "*.nodeSelector": _TEXTS,
    "*.tolerations": _OBJECTS,
    "*.topologySpreadConstraints": _OBJECTS,
    "*.extraEnv": _OBJECTS,
    "*.extraVolumes": _OBJECTS,
    "*.extraVolumeMounts": _OBJECTS,
    "agent.updateType": {"enum": ["RollingUpdate", "OnDelete"]},
    "dnsConfig": _ANY,
    "*.podLabels": _TEXTS,
    "*.podAnnotations": _TEXTS,
    "*.serviceAccount.annotations": _TEXTS,
    "hooks.installSeconds": {"type": "integer", "minimum": 30},
    "hooks.releaseSeconds": {"type": "integer", "minimum": 60},
    "rbac.userGroups": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "group": {"type": "string", "minLength": 1},
                "role": {"enum": ["user", "lead", "admin"]},
                "namespaces": _NAMES,
                "entitlements": _NAMES,
            },
            "required": ["group"],
            "additionalProperties": False,
        },
    },
    "threadsPolicy": _AUTO,
    "dashboard.proxyHeaders.from": _OBJECTS,
    "networkPolicy.metricsFrom": _OBJECTS,
    "networkPolicy.apiServerPorts": {"type": "array", "items": _PORT},
    "monitoring.serviceMonitor": _AUTO,
    "monitoring.alerts": _AUTO,
    "monitoring.interval": {"type": "string", "pattern": "^([0-9]+(ms|[smh]))+$"},
    "monitoring.labels": _TEXTS,
    "monitoring.dashboard.labels": _TEXTS,
}
"""Schemas of values whose type cannot be inferred from their default; ``*`` is any one name."""


def main() -> None:
    """Write both files, or compare them."""
    made = {CHART / "values.schema.json": schema_text(), PAGE: page_text(PAGE.read_text())}
    if "--check" in sys.argv[1:]:
        sys.exit(any(path.read_text() != text for path, text in made.items()))
    for path, text in made.items():
        path.write_text(text)


def schema_text() -> str:
    """Return the schema of all values, as JSON."""
    values, comments = read_values()
    head = {"$schema": "https://json-schema.org/draft-07/schema#", "title": "Values of walras"}
    made = _schema((), values, comments)
    made["properties"]["enabled"] = {
        "description": "Whether a chart that depends on this one installs it, as its condition.",
        "type": "boolean",
    }
    # Helm gives subcharts, and the parents of one, `global`.
    made["properties"]["global"] = {"type": "object"}
    return json.dumps({**head, **made}, indent=2) + "\n"


def page_text(text: str) -> str:
    """Return the page with its table generated anew."""
    before, _, rest = text.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    return before + MARKS[0] + "\n" + table() + "\n" + MARKS[1] + after


def table() -> str:
    """Return a Markdown table with a row for all values of the same description and default."""
    values, comments = read_values()
    alike: dict[tuple[str, str], list[str]] = {}
    for path, value in leaves((), values):
        alike.setdefault((comments[path], json.dumps(value)), []).append(f"`{'.'.join(path)}`")
    rows = [
        f"| {', '.join(names)} | {comment.replace('|', BAR)} | `{default}` |"
        for (comment, default), names in alike.items()
    ]
    return "\n".join(["| value | | default |", "|---|---|---|", *rows]) + "\n"


def read_values() -> tuple[dict[str, Any], dict[Path_, str]]:
    """Return the values of the chart, and the comment above each value by its path."""
    text = (CHART / "values.yaml").read_text()
    return yaml.safe_load(text), dict(_comments(text))


def leaves(path: Path_, value: Any) -> Iterator[tuple[Path_, Any]]:
    """Yield every value that users set as a whole, with its path."""
    if isinstance(value, dict) and value and shape(path) is None:
        for name, each in value.items():
            yield from leaves((*path, name), each)
    else:
        yield path, value


def shape(path: Path_) -> Schema | None:
    """Return the explicit schema of a value; None if it is inferred from the default."""
    for pattern, found in SHAPES.items():
        names = pattern.split(".")
        if len(names) == len(path) and all(
            name in {"*", each} for name, each in zip(names, path, strict=True)
        ):
            return found
    if path == ("market", "spec"):
        return _market_spec()
    return None


def _schema(path: Path_, value: Any, comments: dict[Path_, str]) -> Schema:
    described = {"description": comments[path]} if path in comments else {}
    known = shape(path)
    if known is not None:
        return described | known
    if isinstance(value, dict):
        fields = {name: _schema((*path, name), each, comments) for name, each in value.items()}
        return {**described, "type": "object", "additionalProperties": False, "properties": fields}
    kinds = {bool: "boolean", str: "string"}
    return {**described, "type": kinds[type(value)]}


def _market_spec() -> Schema:
    """Return the schema of a Market's spec, without the rules that helm does not know."""
    (market,) = (each for each in DEFINITIONS if each.kind == "Market")
    document = definition_document(market)
    (version,) = document["spec"]["versions"]
    closed: Schema = _closed(version["schema"]["openAPIV3Schema"]["properties"]["spec"])
    return closed


def _closed(schema: Any) -> Any:
    """Return a schema that rejects unknown fields, without defaults and rules."""
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {
        name: {key: _closed(each) for key, each in part.items()}
        if name == "properties"
        else _closed(part)
        for name, part in schema.items()
        if name != "default" and not name.startswith("x-kubernetes")
    }
    if schema.get("x-kubernetes-int-or-string"):
        made["type"] = ["integer", "string"]
    return {**made, "additionalProperties": False} if "properties" in schema else made


def _comments(text: str) -> Iterator[tuple[Path_, str]]:
    """Yield the path of each key of a YAML text, and the comment above it."""
    path: list[tuple[int, str]] = []
    above: list[str] = []
    for line in text.splitlines():
        found = re.match(r"( *)([A-Za-z]+):", line)
        if line.lstrip().startswith("#"):
            above.append(line.strip().removeprefix("#").strip())
        elif found:
            indent = len(found[1])
            path = [each for each in path if each[0] < indent] + [(indent, found[2])]
            if above:
                yield tuple(name for _, name in path), " ".join(above)
            above = []
        else:
            above = []


if __name__ == "__main__":
    main()
