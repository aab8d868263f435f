"""The kinds that users and administrators write, by name; each has a module of its own."""

from __future__ import annotations

from walras_api.contract import NAMESPACED_KINDS
from walras_api.entitlement import EntitlementObject, EntitlementSpec
from walras_api.market import CoresPolicy, Market, MarketSpec
from walras_api.market_job import JobData, MarketJob, MarketJobSpec, ProgressSource
from walras_api.model import Resource
from walras_api.speedup_profile import SpeedupProfile, SpeedupProfileSpec

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
