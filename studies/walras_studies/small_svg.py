"""An SVG of matplotlib in half of its size and on one line, which looks the same."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

SVG = "http://www.w3.org/2000/svg"
_LINK = "http://www.w3.org/1999/xlink"

_FONT = "'DejaVu Sans', Verdana, Arial, sans-serif"
_NUMBER = re.compile(r"-?\d+\.\d+")
_GEOMETRY = ("d", "x", "y", "width", "height", "transform", "viewBox")
_REFERRED = re.compile(r"#(\w+)")


def small(text: str) -> str:
    """Return a drawing without metadata and unused names, with coordinates to 0.01 points."""
    ET.register_namespace("", SVG)
    ET.register_namespace("xlink", _LINK)
    root = ET.fromstring(text)  # noqa: S314 - matplotlib wrote it a moment ago
    root[:] = [each for each in root if not each.tag.endswith("metadata")]
    values = (value for each in root.iter() for value in each.attrib.values())
    named = {name for value in values for name in _REFERRED.findall(value)}
    for each in root.iter():
        _shorten(each, named)
    _unwrap(root)
    root.set("font-family", _FONT)
    return ET.tostring(root, encoding="unicode") + "\n"


def _shorten(element: ET.Element, named: set[str]) -> None:
    """Round the coordinates of an element, and drop its name, style and white space if unused."""
    kept = element.attrib
    if kept.get("id") not in named:
        kept.pop("id", None)
    for name in set(_GEOMETRY) & kept.keys():
        kept[name] = _NUMBER.sub(_rounded, kept[name])
    if "d" in kept:
        kept["d"] = re.sub(r"\s*([A-Za-z])\s*", r"\1", kept["d"]).strip()
    if kept.get("transform", "").startswith("rotate(-0 "):
        del kept["transform"]
    if "style" in kept:
        styles = (each.strip() for each in kept["style"].split(";"))
        kept["style"] = ";".join(
            each.replace(": ", ":") for each in styles if not each.startswith("font-family")
        )
    if not (element.text or "").strip():
        element.text = None
    element.tail = None


def _rounded(number: re.Match[str]) -> str:
    """Return a number with at most two decimals, and no sign before a zero."""
    return f"{round(float(number[0]), 2) + 0.0:.2f}".rstrip("0").rstrip(".")


def _unwrap(element: ET.Element) -> None:
    """Replace every group below an element that has no attributes by what is in it."""
    found: list[ET.Element] = []
    for each in element:
        _unwrap(each)
        found += each if each.tag == f"{{{SVG}}}g" and not each.attrib else [each]
    element[:] = found
