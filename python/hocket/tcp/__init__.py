"""Adaptively unfair TCP for Linux (HotNets'22 §4(i)) as an eBPF congestion control: `hocket tcp`.

`use` and `set_phase`, which a training job calls, are re-exported from `hocket_agent`, which needs only the
standard library; everything else is in `hocket.tcp.control`.
"""

from hocket_agent import ADAPTIVE, WEIGHTED, set_phase, use

__all__ = ["ADAPTIVE", "WEIGHTED", "set_phase", "use"]
