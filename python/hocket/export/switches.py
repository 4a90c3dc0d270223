"""Traffic classes as settings of switches: tables of SONiC, and commands of NVIDIA's NVUE.

Both only map the DSCPs of jobs to their classes and serve those classes in strict priority, the highest
first. Which classes are lossless, and the ECN thresholds, stay as they are.
"""

import re
from typing import Any

from hocket.errors import InputError
from hocket.export.classes import CNP_CLASS, CNP_DSCP, Classes
from hocket.units import shown

# The name of the maps in SONiC's template (`files/build_templates/qos_config.j2`).
_MAP = "AZURE"
_SCHEDULER = "hocket.strict"
_PORT = re.compile(r"Ethernet\d{1,4}(/\d{1,3}){0,3}")


def parse_ports(text: str) -> tuple[str, ...]:
    """The ports of a SONiC switch in `text`. Raises `InputError` for anything else.

    >>> parse_ports("Ethernet0,Ethernet4")
    ('Ethernet0', 'Ethernet4')
    """
    ports = tuple(text.split(","))
    for port in ports:
        if not _PORT.fullmatch(port):
            raise InputError(f"--ports: must be ports such as Ethernet0,Ethernet4: got {shown(port)}")
    return tuple(dict.fromkeys(ports))


def sonic_tables(classes: Classes, ports: tuple[str, ...]) -> dict[str, Any]:
    """The rows for `config load` to add to CONFIG_DB of a SONiC switch; other fields of these rows stay."""
    strict = (CNP_CLASS, *classes.used)
    # CONFIG_DB is a Redis database, which has no other type than text.
    dscps = {str(each.dscp): str(each.traffic_class) for each in classes.jobs}
    return {
        "DSCP_TO_TC_MAP": {_MAP: {**dict(sorted(dscps.items())), str(CNP_DSCP): str(CNP_CLASS)}},
        "TC_TO_QUEUE_MAP": {_MAP: {str(each): str(each) for each in strict}},
        "SCHEDULER": {_SCHEDULER: {"type": "STRICT"}},
        "PORT_QOS_MAP": {port: {"dscp_to_tc_map": _MAP, "tc_to_queue_map": _MAP} for port in ports},
        "QUEUE": {f"{port}|{each}": {"scheduler": _SCHEDULER} for port in ports for each in strict},
    }


def nvue_commands(classes: Classes) -> tuple[str, ...]:
    """The commands for all ports of a switch with NVUE (Cumulus Linux 5)."""
    strict = (CNP_CLASS, *classes.used)
    dscps = {each.traffic_class: each.dscp for each in classes.jobs} | {CNP_CLASS: CNP_DSCP}
    return (
        "nv set qos mapping default-global trust l3",
        *(f"nv set qos mapping default-global dscp {dscps[each]} switch-priority {each}" for each in strict),
        *(
            f"nv set qos egress-queue-mapping default-global switch-priority {each} traffic-class {each}"
            for each in strict
        ),
        f"nv set qos egress-scheduler default-global traffic-class {','.join(map(str, strict))} mode strict",
        "nv config apply -y",
    )
