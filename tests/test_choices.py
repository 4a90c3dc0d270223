"""A string that is not one of the choices is refused, and the choices are named."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest
from tests.conftest import half, shared_link

import hocket
from hocket import InputError, Run, _hocket
from hocket.cluster.arrivals import drawn_batch_size, models_in
from hocket.cluster.replay import replay
from hocket.engines.run import ignored
from hocket.figures.cluster import distribution_figure, over_time_figure
from hocket.hpcc import Fidelity
from hocket.plan.congestion import Preset
from hocket.tcp.control import load
from hocket.training.pipeline import passes

PLAN = shared_link(half("a"))

LINK = _hocket.Fabric.one_link(50 * 10**9)
MODEL: dict[str, Any] = {
    **_hocket.rocev2_frames(),
    "mtu_bytes": 1000,
    "ack_every": 1,
    "nack_interval_ps": 10**9,
    "cnp": None,
    "pause_holds_acks": True,
    "retransmit_timeout_ps": 10**9,
    "buffer_bytes": 10**7,
    "reserve_bytes": 4096,
    "headroom": "computed",
    "dynamic_threshold": -3,
    "resume_offset_bytes": 3072,
    "pfc": True,
    "marking": [],
    "scheduling": "round-robin",
    "cut_through": False,
    "telemetry_unit": 1,
    "pint_base": 1.05,
    "arithmetic": "exact",
}
RUN: Any = {
    "priority_queues": 1,
    "goodput": (),
    "seed": 0,
    "iterations": 1,
    "until_ps": None,
    "record_rates_until_ps": 0,
    "record_operations": 0,
    "sample_every_ps": None,
    "record_flows": False,
}
OPERATION = {
    "name": "one",
    "kind": "compute",
    "after": [],
    "duration_ps": 1,
    "bytes": 0,
    "communicator": 0,
    "peer": 0,
    "tag": 0,
}
FRAMING = {"payload": 1000, "header": 50, "ack": 60, "ack_every": 1}


def rank(aggregate: str) -> None:
    search: Any = {"precision_deg": 5.0, "strict": False, "time_limit_s": 1.0}
    options: Any = {"aggregate": aggregate, "solve_loops": False, "seed": 0, "tolerance": 0.0}
    _hocket.rank(LINK, [], [], search, options)


def packets(
    policy: str = "pfc-only", window: Any = "unlimited", hash_name: str = "mixed", **model: str
) -> None:
    flows: Any = dict.fromkeys(
        ("from_node", "to_node", "forward_label", "reverse_label", "priority", "policy", "window"), b""
    )
    messages: Any = {"flow": b"", "bytes": b"", "start_ps": b""}
    options: Any = {
        "seed": 0,
        "until_ps": None,
        "sample_every_ps": None,
        "hash": hash_name,
        "longest_rtt_for_all": False,
        "record_rates": False,
        "record_utilisation": False,
    }
    _hocket.simulate_packets(
        LINK,
        {**MODEL, **model},
        [{"policy": policy}],
        [(window, 0)],
        flows,
        messages,
        [],
        options,
        lambda name, columns: None,
        lambda time_ps, done, total: None,
    )


def job(**keys: object) -> Any:
    return {
        "name": "a",
        "profile": {
            "period_ps": 10**12,
            "phases": [{"start_ps": 0, "duration_ps": 10**9, "rate_bps": 10**9}],
        },
        "first": None,
        "crossings": [(0, 1)],
        "training": None,
        "arrival_ps": 0,
        "iterations": 1,
        "share": ("fair", 1.0),
        "priority": 0,
        "time_shift_ps": None,
        "clock_error_ps": 0,
        "readjust": False,
        "jitter": 0.0,
        "pad_to_ps": None,
        **keys,
    }


def rates(**keys: object) -> None:
    _hocket.simulate(LINK, [job(**keys)], RUN, lambda name, columns: None, lambda time_ps, done, total: None)


def jobs_by_packets(
    path: str = "ecmp", policy: str = "pfc-only", window: str = "unlimited", change: str | None = None
) -> None:
    transport: Any = {
        "flows": [{"from_node": 0, "to_node": 1, "label": 0, "path": path}],
        "policy": {"policy": policy},
        "window": (window, 0),
    }
    changes: Any = [] if change is None else [{"at_ps": 0, "link": 0, "kind": change, "rate_bps": 0}]
    _hocket.simulate_jobs(
        LINK,
        MODEL,
        [job()],
        [transport],
        changes,
        RUN,
        None,
        lambda name, columns: None,
        lambda time_ps, done, total: None,
    )


def training(kind: str = "compute", **keys: object) -> None:
    spec = {
        "programs": [[{**OPERATION, "kind": kind}]],
        "groups": [],
        "ranks": [(0, [])],
        "hosts": [0],
        "localities": [[0]],
        "algorithms": [],
        "chunks": 1,
        "in_flight": 1,
        "endpoint_delay_ps": 0,
        "reduction_bps": None,
        "stragglers": [],
        "path": "ecmp",
        "framing": FRAMING,
        "scale_up_framing": FRAMING,
        **keys,
    }
    rates(training=spec, profile=None)


POLICIES = '"dcqcn", "dctcp", "timely", "hpcc", "hpcc-pint", "static-window", "receiver-driven" or "pfc-only"'
WINDOWS = '"unlimited", "path-full", "path-full-scaled" or "bytes"'
COLLECTIVES = '"all-reduce", "reduce-scatter", "all-gather", "all-to-all" or "broadcast"'
AT_THE_BOUNDARY: dict[str, tuple[Callable[[Any], object], str]] = {
    "node": (lambda kind: _hocket.Fabric([("s0", kind)], []), '"host", "switch" or "scale-up"'),
    "aggregate": (rank, '"mean", "min" or "tail"'),
    "headroom": (lambda name: packets(headroom=name), '"computed" or "three-delays"'),
    "scheduling": (lambda name: packets(scheduling=name), '"round-robin" or "strict"'),
    "arithmetic": (lambda name: packets(arithmetic=name), '"exact" or "reference"'),
    "hash": (lambda name: packets(hash_name=name), '"murmur3" or "mixed"'),
    "policy": (lambda name: packets(policy=name), POLICIES),
    "policy of a job": (lambda name: jobs_by_packets(policy=name), POLICIES),
    "policy of a preset": (lambda name: _hocket.congestion_preset(name, "recommended", 10**9), POLICIES),
    "preset of dcqcn": (
        lambda name: _hocket.congestion_preset("dcqcn", name, 10**9),
        '"recommended", "mlx5", "sigcomm15" or "hotnets22"',
    ),
    "preset of hpcc": (lambda name: _hocket.congestion_preset("hpcc", name, 10**9), '"recommended"'),
    "window": (lambda name: packets(window=name), WINDOWS),
    "window of a job": (lambda name: jobs_by_packets(window=name), WINDOWS),
    "share": (lambda name: rates(share=(name, 1.0)), '"fair", "weighted" or "adaptive"'),
    "path": (lambda name: jobs_by_packets(path=name), '"ecmp" or "spray"'),
    "path of a training job": (lambda name: training(path=name), '"ecmp" or "spray"'),
    "change": (lambda name: jobs_by_packets(change=name), '"down", "up" or "rate"'),
    "kind of operation": (lambda name: training(kind=name), f'"compute", "send", "recv", {COLLECTIVES}'),
    "collective": (lambda name: training(algorithms=[(name, ["ring"])]), COLLECTIVES),
    "algorithm": (
        lambda name: training(algorithms=[("all-reduce", [name])]),
        '"ring", "tree", "halving-doubling" or "direct"',
    ),
}


@pytest.mark.parametrize("choice", AT_THE_BOUNDARY)
def test_the_compiled_module_refuses_an_unknown_choice(choice: str) -> None:
    call, choices = AT_THE_BOUNDARY[choice]
    what = choice.partition(" of a ")[0]
    with pytest.raises(ValueError, match=f'^{what}.*"pakcet": must be {choices}$'):
        call("pakcet")


@pytest.mark.parametrize("name", ["recommended", "mlx5", "sigcomm15", "hotnets22"])
def test_dcqcn_has_each_of_its_presets(name: Preset) -> None:
    assert _hocket.congestion_preset("dcqcn", name, 10**9)["min_rate_bps"] > 0


ENGINES = "engine: must be 'flow' or 'packet': got 'pakcet'"
ITERATIONS = {"run": pl.DataFrame()}
IN_PYTHON: dict[str, tuple[Callable[[Any], object], str]] = {
    "simulate": (lambda name: hocket.simulate(PLAN, engine=name), ENGINES),
    "sweep": (lambda name: hocket.sweep(PLAN, {"seed": [1]}, engine=name, cache=False), ENGINES),
    "ignored": (lambda name: ignored(hocket.parse_plan(PLAN), name), ENGINES),
    "replay": (lambda name: replay(Run({}, {}), 0, 1, engine=name), ENGINES),
    "over_time_figure": (
        lambda name: over_time_figure(ITERATIONS, name),
        "quantity: must be 'slowdown', 'iteration' or 'marks': got 'pakcet'",
    ),
    "distribution_figure": (
        lambda name: distribution_figure(ITERATIONS, name),
        "quantity: must be 'slowdown', 'iteration' or 'marks': got 'pakcet'",
    ),
    "passes": (lambda name: passes(name, 0, 2, 2), "schedule: must be 'gpipe' or '1f1b': got 'pakcet'"),
    "drawn_batch_size": (
        lambda name: drawn_batch_size(Random(0), models_in(["VGG16"])[0], name),
        "batch_sizes: must be 'uniform' or 'reference': got 'pakcet'",
    ),
    "tcp.load": (load, "base: must be 'cubic' or 'reno': got 'pakcet'"),
    "hpcc arithmetic": (
        lambda name: Fidelity("mine", name, "rocev2", "computed"),
        "arithmetic: must be 'reference' or 'exact': got 'pakcet'",
    ),
    "hpcc frames": (
        lambda name: Fidelity("mine", "exact", name, "computed"),
        "frames: must be 'reference' or 'rocev2': got 'pakcet'",
    ),
    "hpcc headroom": (
        lambda name: Fidelity("mine", "exact", "rocev2", name),
        "headroom: must be 'three-delays' or 'computed': got 'pakcet'",
    ),
}


@pytest.mark.parametrize("function", IN_PYTHON)
def test_a_public_function_refuses_an_unknown_choice(function: str) -> None:
    call, message = IN_PYTHON[function]
    with pytest.raises(InputError) as refused:
        call("pakcet")
    assert str(refused.value) == message


def test_an_argument_is_refused_with_the_message_of_a_plan(tmp_path: Path) -> None:
    with pytest.raises(InputError) as in_plan:
        hocket.parse_plan({**PLAN, "run": {"engine": "pakcet"}})
    with pytest.raises(InputError) as as_argument:
        hocket.simulate(PLAN, engine="pakcet", directory=tmp_path / "run")  # type: ignore[arg-type]
    assert str(in_plan.value) == f"plan: run.{as_argument.value}"
    assert not (tmp_path / "run").exists()
