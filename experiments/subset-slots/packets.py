"""Two of three jobs on one link get slots: their gain on both engines, in one window of each."""

from collections.abc import Iterator, Mapping
from typing import Any, get_args

from hocket import _hocket, simulate
from hocket.engines.network import Network
from hocket.plan import Engine
from hocket.profiles import PhaseSpec, WorkloadProfile
from hocket.schedulers.cassini import CassiniOptions, Slot
from hocket.schedulers.cassini.components import Member, layout
from hocket.schedulers.cassini.slots import Prediction
from hocket.schedulers.cassini.subsets import subset_slots
from hocket.units import format_duration
from hocket_reproduce.targets.setting import JITTER

_RATE_BPS = 50 * 10**9
_MS = 10**9
_SEED = 3
# Period and Up phase in ms, and the rate in Gbps: tests/schedulers/cassini/test_subsets.py explains them.
_JOBS = {"a": (200, 90, 40), "b": (190, 90, 40), "c": (171, 20, 20)}
# Relative starts of jobs without slots: their means are compared with one run in slots.
_STARTS_MS = (0, 65, 130)
_ITERATIONS = 20


def found_slots() -> Mapping[str, Slot]:
    """The slots that CASSINI gives with `slots = "subset"`."""
    fabric = _hocket.Fabric.one_link(_RATE_BPS)
    network = Network(fabric, tuple(fabric.links()), {}, (0,))
    members = []
    for name, (period_ms, up_ms, gbps) in _JOBS.items():
        phase = PhaseSpec((period_ms - up_ms) * _MS, up_ms * _MS, gbps * 10**9)
        members.append(Member(name, (0,), 1, WorkloadProfile(period_ms * _MS, (phase,), ()), [(0, 1)]))
    (part,) = layout(members, [_RATE_BPS]).parts
    prediction = Prediction(fabric, part, jitter=JITTER, adjust=True, seed=_SEED)
    best = subset_slots(part, prediction, network, CassiniOptions(slots="subset"), _SEED)
    assert best is not None, "these jobs gain from slots"
    print(f"predicted gain {best.gain:.3f}×")
    return {part.names[place]: slot for place, slot in best.slots.items()}


def plan(slots: Mapping[str, Slot], start_ms: int) -> dict[str, Any]:
    """The jobs on one link; those without a slot start some multiple of `start_ms` late."""
    return {
        "seed": _SEED,
        "link": {"capacity": "50 Gbps"},
        "run": {"iterations": _ITERATIONS},
        "jobs": list(_jobs(slots, start_ms)),
    }


def _jobs(slots: Mapping[str, Slot], start_ms: int) -> Iterator[dict[str, Any]]:
    for number, (name, (period_ms, up_ms, gbps)) in enumerate(_JOBS.items()):
        up = [{"start": f"{period_ms - up_ms} ms", "duration": f"{up_ms} ms", "rate": f"{gbps} Gbps"}]
        job = {"name": name, "period": f"{period_ms} ms", "up": up, "jitter": JITTER}
        if name in slots:
            slot = slots[name]
            yield {
                **job,
                "time_shift": format_duration(slot.origin_ps),
                "pad_to": format_duration(slot.period_ps),
                "readjust": True,
            }
        else:
            yield {**job, "time_shift": f"{number * start_ms} ms"}


def means_ms(plan: Mapping[str, Any], engine: Engine) -> dict[str, float]:
    """The mean iteration of each job with the wait for its slot."""
    rows = simulate(plan, engine=engine).tables["iterations"]
    # The first iteration waits for the time-shift.
    rows = rows.filter(rows["iteration"] > 0)
    found = {}
    for name in _JOBS:
        of_job = rows.filter(rows["job"] == name)
        found[name] = float((of_job["iteration_s"] + of_job["delayed_s"]).to_numpy().mean() * 1e3)
    return found


def main() -> None:
    """Runs the windows and prints them."""
    slots = found_slots()
    for engine in get_args(Engine):
        free = [means_ms(plan({}, start_ms), engine) for start_ms in _STARTS_MS]
        slotted = [means_ms(plan(slots, start_ms), engine) for start_ms in _STARTS_MS]
        gains = []
        for name in _JOBS:
            before, after = (sum(each[name] for each in runs) / len(runs) for runs in (free, slotted))
            gains.append(before / after)
            print(
                f"{engine:6} {name}: {before:6.1f} ms without slots, {after:6.1f} ms with, {gains[-1]:.3f}×"
            )
        print(f"{engine:6} mean gain {sum(gains) / len(gains):.3f}×", flush=True)


if __name__ == "__main__":
    main()
