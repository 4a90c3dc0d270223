"""Studies written for the HPCC simulator and its descendants: their inputs read, their outputs written.

`load_study` reads a `config.txt` with the topology and the flows that it names; `write_completions` and
`write_pauses` write what such a simulator would have left behind.
"""

from hocket.hpcc.config import Config, Ignored
from hocket.hpcc.flows import Flows
from hocket.hpcc.outputs import standalone_ns, write_completions, write_pauses
from hocket.hpcc.study import Study, is_study, load_study
from hocket.hpcc.topology import Topology

__all__ = [
    "Config",
    "Flows",
    "Ignored",
    "Study",
    "Topology",
    "is_study",
    "load_study",
    "standalone_ns",
    "write_completions",
    "write_pauses",
]
