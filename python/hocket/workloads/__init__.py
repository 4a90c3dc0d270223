"""The workload catalogue: the profile of one iteration of known models (NSDI'24 Table 3)."""

from hocket.workloads.catalogue import (
    CATALOGUE,
    calibrated_workers,
    catalogue_frame,
    figure_3_profile,
    find_model,
    plain_name,
    profile,
)
from hocket.workloads.measured import Measured, Measurement
from hocket.workloads.model import Model
from hocket.workloads.nic import with_nic
from hocket.workloads.sourced import Sourced
from hocket.workloads.strategies import LINE_RATE_BPS

__all__ = [
    "CATALOGUE",
    "LINE_RATE_BPS",
    "Measured",
    "Measurement",
    "Model",
    "Sourced",
    "calibrated_workers",
    "catalogue_frame",
    "figure_3_profile",
    "find_model",
    "plain_name",
    "profile",
    "with_nic",
]
