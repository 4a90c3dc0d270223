"""The tables of the packet engine and the types of their columns, so that one without rows is there too."""

from typing import Any

import polars as pl

Schemas = dict[str, dict[str, Any]]

_TEXT, _COUNT, _CODE, _REAL = pl.String, pl.UInt64, pl.UInt32, pl.Float64

EVENT_TABLES: Schemas = {
    "flows": {
        "flow": _CODE,
        "job": _TEXT,
        "src": _TEXT,
        "dst": _TEXT,
        "bytes": _COUNT,
        "start_ps": _COUNT,
        "end_ps": _COUNT,
        "fct_s": _REAL,
        "marks": _COUNT,
        "cnps": _COUNT,
        "rate_cuts": _COUNT,
        "retransmissions": _COUNT,
    },
    "pauses": {"time_ps": _COUNT, "link": _TEXT, "priority": _CODE, "pause": _CODE},
    "ports": {
        "link": _TEXT,
        "packets": _COUNT,
        "bytes": _COUNT,
        "marked": _COUNT,
        "peak_bytes": _COUNT,
        "pauses": _COUNT,
        "paused_s": _REAL,
    },
    "paused": {"link": _TEXT, "priority": _CODE, "pauses": _COUNT, "paused_s": _REAL},
    "switches": {"switch": _TEXT, "peak_bytes": _COUNT},
}
"""Of every run: messages, PAUSE frames, and what ports and switches saw."""

JOB_TABLES: Schemas = {
    "iterations": {
        "job": _TEXT,
        "iteration": _COUNT,
        "start_ps": _COUNT,
        "end_ps": _COUNT,
        "iteration_s": _REAL,
        "communication_s": _REAL,
        "compute_s": _REAL,
        "delayed_s": _REAL,
    },
    "phases": {
        "job": _TEXT,
        "iteration": _COUNT,
        "phase": _CODE,
        "start_ps": _COUNT,
        "end_ps": _COUNT,
        "bytes": _COUNT,
        "mean_rate_bps": _REAL,
    },
    "adjustments": {"job": _TEXT, "time_ps": _COUNT, "deviation_s": _REAL, "delay_s": _REAL},
    "links": {"link": _TEXT, "job": _TEXT, "bytes": _COUNT, "utilisation": _REAL, "busy_s": _REAL},
}
"""Of runs of jobs, besides `jobs`, which has a row for each."""

TRAINING_TABLES: Schemas = {
    "ranks": {
        "job": _TEXT,
        "iteration": _COUNT,
        "rank": _CODE,
        "host": _TEXT,
        "start_ps": _COUNT,
        "end_ps": _COUNT,
        "compute_s": _REAL,
        "exposed_s": _REAL,
    },
    "operations": {
        "job": _TEXT,
        "iteration": _COUNT,
        "rank": _CODE,
        "operation": _CODE,
        "name": _TEXT,
        "kind": _TEXT,
        "start_ps": _COUNT,
        "end_ps": _COUNT,
    },
    "collectives": {
        "job": _TEXT,
        "iteration": _COUNT,
        "name": _TEXT,
        "kind": _TEXT,
        "algorithm": _TEXT,
        "ranks": _CODE,
        "group": _CODE,
        "bytes": _COUNT,
        "start_ps": _COUNT,
        "end_ps": _COUNT,
        "time_s": _REAL,
        "algbw_bps": _REAL,
        "busbw_bps": _REAL,
    },
}
"""Of runs with training jobs."""

QUEUE_TABLES: Schemas = {
    "queues": {"time_ps": _COUNT, "link": _TEXT, "bytes": _COUNT},
    "switch_queues": {"time_ps": _COUNT, "switch": _TEXT, "bytes": _COUNT},
}
"""Of runs that sample queues: a row where a length is not that of the sample before."""

RATE_TABLES: Schemas = {
    "rates": {"time_ps": _COUNT, "flow": _CODE, "job": _TEXT, "rate_bps": _COUNT},
    "utilisation": {"time_ps": _COUNT, "link": _TEXT, "job": _TEXT, "bytes": _COUNT},
}
"""Of runs that sample rates and traffic."""

REPEAT_TABLES: Schemas = {
    "repeated": {
        "job": _TEXT,
        "first_iteration": _COUNT,
        "iterations": _COUNT,
        "start_ps": _COUNT,
        "end_ps": _COUNT,
        "cycles": _COUNT,
        "exact": _CODE,
        "deviation": _REAL,
        "drift_bound": _REAL,
    },
}
"""Of runs that may skip ahead: what was repeated instead of simulated, and how far it may be off."""
