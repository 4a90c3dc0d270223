"""Adaptively unfair TCP for Linux (HotNets'22 §4(i)) as an eBPF congestion control: `hocket tcp`.

What a training job may call, `use` and `set_phase`, is passed on from `hocket_agent`, which needs the
standard library only; the rest is in `hocket.tcp.control`.
"""

from hocket_agent import ADAPTIVE, WEIGHTED, set_phase, use

__all__ = ["ADAPTIVE", "WEIGHTED", "set_phase", "use"]
