"""Names of the studies; the module of each is imported only when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from walras_studies.study import Study

STUDIES = {
    "amdahl": "the market for cores, compared with other policies",
    "amdahl-bidding": "iterations of bidding, and its error when it stops",
    "karma": "memory divided by credits, for users with bursty demands",
    "proportional-share": "users who foresee their effect on prices, with linear utilities",
    "abacus": "auctions: iterations, truthfulness, deadlines, estimated utilities",
    "cooper": "pairs of jobs that share a processor",
    "month": "a month of a cluster: cores by market and memory by credits together",
    "held": "what pods hold in a month, beside Kubernetes, quotas and whole cores",
    "demand": "thread counts that the market learns from what pods use",
    "lying": "what a user gains by lying, by mechanism and number of users",
    "credits": "credits for lent cores, and credits for memory that fade",
    "adjustment": "bids adjusted by progress, compared with measured speedups",
    "overheads": "how long decisions take",
    "programs": "F and run times of real programs, predicted from samples of their data",
}
"""Subject of each study by name. Studies that measure times come last: they load the machine."""


_HOMES = {
    "amdahl-bidding": "amdahl.bidding"
}  # all others are the `study` of a folder of their name


def load(name: str) -> Study[Any, Any]:
    """Return the study with this name, one of `STUDIES`."""
    home = _HOMES.get(name, f"{name.replace('-', '_')}.study")
    module = import_module(f"walras_studies.{home}")
    study: Study[Any, Any] = module.STUDY
    return study
