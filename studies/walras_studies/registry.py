"""The studies by name, each loaded when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from walras_studies.study import Study

STUDIES = {
    "amdahl": "the market for cores against its rivals",
    "amdahl-bidding": "iterations of bidding, and what its stopping rule leaves undone",
    "karma": "memory by credits, on bursty demands",
    "proportional-share": "users who foresee prices, and linear utilities",
    "abacus": "auctions: iterations, truth, promises, estimated utilities",
    "cooper": "who shares a processor with whom",
    "month": "a cluster's month: cores by market and memory by credits together",
    "lying": "what a user gains by lying, by mechanism and number of users",
    "credits": "credits for cores, and credits for memory that fade",
    "adjustment": "bids adjusted by what they bring, against measured speedups",
    "overheads": "what decisions cost in time",
    "programs": "F and times of real programs, predicted from samples of their data",
}
"""Names, and what each is about; what is measured comes last, and asks most of the machine."""


def load(name: str) -> Study[Any, Any]:
    """Return the study of a name in `STUDIES`."""
    module = import_module(f"walras_studies.{name.replace('-', '_')}")
    study: Study[Any, Any] = module.STUDY
    return study
