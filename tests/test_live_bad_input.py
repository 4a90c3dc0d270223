"""Every invalid input of the live commands ends in one message that names the option or the file, the
value and the limit, and in exit code 2, on any machine: with root or without, and whatever it lacks.
"""

import json
from pathlib import Path

import pytest
from tests.conftest import Command

UP = {"start": "60 ms", "duration": "40 ms", "rate": "160 Mbps"}
PLAN = {
    "link": {"capacity": "200 Mbps"},
    "jobs": [{"name": name, "period": "100 ms", "up": [UP]} for name in ("a", "b")],
}
SERIES = "time_s,tx_bytes\n0.0,1\n0.1,1\n"
# Nothing listens on port 1: it is reserved for a service that is no longer used (RFC 1078).
AWAY = "http://127.0.0.1:1"

BAD_COMMANDS = [
    (("profile",), "profile: give files or a port to --watch"),
    (("profile", "missing.csv"), "missing.csv: no such file"),
    (("profile", "."), ".: cannot be read: Is a directory"),
    (("profile", "noise"), "noise: is none of the kinds that can be profiled: a CSV series"),
    (("profile", "series.csv", "--watch", "lo"), "profile: give files or a port to --watch, not both"),
    (("profile", "series.csv", "--interval", "1 s"), "--interval: only with --watch: files"),
    (("profile", "series.csv", "--capacity", "50"), "--capacity: a rate needs a unit such as Gbps: got '50'"),
    (
        ("profile", "series.csv", "--capacity", "1 Gbps"),
        "--capacity: only with --out, the file that the [link] is written to",
    ),
    (("profile", "--watch", "lo", "--out", "a.yaml"), "a.yaml: suffix '.yaml'; jobs are written as .toml or"),
    (("profile", "--watch", "lo", "--figure", "a.gif"), "a.gif: a figure is one of .svg, .png, .pdf: got"),
    (("profile", "--watch", "no0"), "no0: no such device; the devices are "),
    (
        ("profile", "--watch", "lo", "--seconds", "-1"),
        "--seconds: must be above 0 and at most 172800: got -1",
    ),
    (("profile", "--watch", "lo", "--interval", "1"), "--interval: a duration needs a unit such as ms: got"),
    (("profile", "--watch", "lo", "--rate", "1 Gbps"), "--rate: only for files: --watch reads the port lo"),
    (("serve", "--listen", "127.0.0.1"), "--listen: must be HOST:PORT, such as 127.0.0.1:8765: got"),
    (("serve", "--listen", "127.0.0.1:65536"), "--listen: the port must be a number from 0 to 65535"),
    (("serve", "--listen", "0.0.0.0:8765"), "--listen 0.0.0.0: other machines can reach it, so it requires"),
    (("serve", "--token-file", "missing"), "--token-file missing: No such file or directory"),
    (("serve", "--token-file", "series.csv"), "--token-file series.csv: "),
    (("serve", "--jitter", "2"), "--jitter: must be from 0 to 0.5: got 2"),
    (("serve", "--expire", "1 s"), "--expire: must be at least 10 s, as agents report every second: got"),
    (("register", "missing.toml"), "missing.toml: cannot be read: No such file or directory"),
    (
        ("register", "plan.json", "--service", "ftp://x"),
        "--service: must be a URL such as http://127.0.0.1:8",
    ),
    (("register", "plan.json", "--service", AWAY), f"{AWAY}: does not answer: "),
    (("register", "plan.json", "--candidate", "c"), "plan.json: --candidate: 'c' is not in the plan; it has"),
    (("jobs", "--service", "127.0.0.1:8765"), "--service: must be a URL such as http://127.0.0.1:8765: got"),
    (("unregister", "a", "--service", AWAY), f"{AWAY}: does not answer: "),
    (("agent", "--job", "a", "--service", "x", "--", "true"), "HOCKET_SERVICE: must be a URL such as http"),
    (("export", "missing.toml"), "missing.toml: cannot be read: No such file or directory"),
    (("export", "plan.json", "--classes", "7"), "--classes: must be classes from 1 to 5, such as 3,4 ("),
    (("export", "plan.json", "--ports", "a b"), "--ports: must be ports such as Ethernet0,Ethernet4: got"),
    (("testbed", "up", "missing.toml"), "missing.toml: cannot be read: No such file or directory"),
    (("testbed", "up", "plan.json", "--candidate", "c"), "plan.json: candidates: no candidate is called 'c'"),
    (("testbed", "run", "plan.json", "--registered", "no.toml"), "no.toml: cannot be read: No such file"),
    (("testbed", "run", "plan.json", "--job", "c"), "plan.json: the plan has no job 'c'; it has 'a', 'b'"),
    (("testbed", "run", "plan.json", "--iterations", "0"), "plan.json: iterations: must be above 0: got 0"),
    (("testbed", "run", "plan.json", "--python", "true"), "plan.json: the testbed's workers need PyTorch wi"),
    (("testbed", "down"), "down: give the name of a testbed, its plan, or --all"),
    (("testbed", "down", "x", "--all"), "down: give the name of a testbed, its plan, or --all"),
    (("tcp", "load", "--gap", "20"), "--gap: a duration needs a unit such as ms: got '20'"),
]


@pytest.mark.parametrize(
    ("arguments", "message"), BAD_COMMANDS, ids=lambda value: " ".join(value) if type(value) is tuple else ""
)
def test_a_wrong_command_is_refused_in_a_sentence(
    hocket: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    for variable in ("HOCKET_SERVICE", "HOCKET_TOKEN", "HOCKET_JOB"):
        monkeypatch.delenv(variable, raising=False)
    (tmp_path / "plan.json").write_text(json.dumps(PLAN))
    (tmp_path / "series.csv").write_text(SERIES)
    (tmp_path / "noise").write_bytes(b"\x00\x01\x02\x03")

    outcome = hocket(*arguments)

    assert outcome.code == 2
    assert f"error: {message}" in outcome.err
    assert "Traceback" not in outcome.err
    assert outcome.out == ""
