"""Runs studies written for the HPCC simulator and its descendants, and writes their output files.

`load_study` reads a `config.txt` with the topology and the flows that it names. `run_study` runs it on the
packet engine, with the simulator's arithmetic (`REFERENCE`) or without (`EXACT`). `write_completions` and
`write_pauses` write the output files of such a simulator.
"""

from hocket.hpcc.config import Config, Ignored
from hocket.hpcc.flows import Flows
from hocket.hpcc.outputs import standalone_ns, write_completions, write_pauses
from hocket.hpcc.parameters import EXACT, REFERENCE, Fidelity
from hocket.hpcc.run import peak_queue_bytes, run_study
from hocket.hpcc.study import Study, is_study, load_study
from hocket.hpcc.topology import Topology

__all__ = [
    "EXACT",
    "REFERENCE",
    "Config",
    "Fidelity",
    "Flows",
    "Ignored",
    "Study",
    "Topology",
    "is_study",
    "load_study",
    "peak_queue_bytes",
    "run_study",
    "standalone_ns",
    "write_completions",
    "write_pauses",
]
