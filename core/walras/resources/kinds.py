"""The kinds that users and administrators write, by name; each has a module of its own."""

from __future__ import annotations

from walras.resources.contract import NAMESPACED_KINDS
from walras.resources.entitlement import EntitlementObject, EntitlementSpec
from walras.resources.market import CoresPolicy, Market, MarketSpec
from walras.resources.market_job import JobData, MarketJob, MarketJobSpec, ProgressSource
from walras.resources.model import Resource
from walras.resources.speedup_profile import SpeedupProfile, SpeedupProfileSpec

__all__ = [
    "KINDS",
    "NAMESPACED",
    "AnyResource",
    "CoresPolicy",
    "EntitlementObject",
    "EntitlementSpec",
    "JobData",
    "Market",
    "MarketJob",
    "MarketJobSpec",
    "MarketSpec",
    "ProgressSource",
    "Resource",
    "SpeedupProfile",
    "SpeedupProfileSpec",
]

AnyResource = EntitlementObject | MarketJob | Market | SpeedupProfile

KINDS: dict[str, type[AnyResource]] = {
    "Entitlement": EntitlementObject,
    "MarketJob": MarketJob,
    "Market": Market,
    "SpeedupProfile": SpeedupProfile,
}

NAMESPACED = NAMESPACED_KINDS | {"Pod"}
"""Kinds of documents whose objects live in namespaces."""
