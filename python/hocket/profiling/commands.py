"""The command for what jobs leave behind: `hocket profile`."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.markup import escape

from hocket import options
from hocket.console import INTERRUPTED, err, print_json, print_table, progress_bar
from hocket.errors import InputError, located
from hocket.units import parse_duration, parse_rate

if TYPE_CHECKING:
    from hocket.profiling import JobProfile
    from hocket.profiling.watch import OpenPort, Recording

_STANDARD_INPUT = Path("-")
# Below it a profile is a guess; see `JobProfile`.
_SURE = 0.5
_PS_PER_S = 10**12
# A read of sysfs takes some microseconds; iterations of minutes are beyond anything known.
_SHORTEST_S = 1e-3
_LONGEST_S = 60.0


def profile_command(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE…",
            help="What jobs left, one file for each: counters as CSV or JSON of Prometheus, or profiler "
            "traces: PyTorch (Kineto), Nsight Systems, NCCL Inspector or Chakra; - for standard input.",
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option("--watch", metavar="DEV", help="Read a port now: mlx5_0, mlx5_0:1 or eth0."),
    ] = None,
    interval: Annotated[
        str | None, options.interval('With --watch: between readings, by default "10 ms".')
    ] = None,
    seconds: Annotated[
        float | None, options.seconds("With --watch: how long; by default until Ctrl-C.")
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            "--save",
            metavar="FILE.csv",
            callback=options.in_a_directory,
            help="With --watch: keep the readings.",
        ),
    ] = None,
    namespace: Annotated[
        str | None,
        typer.Option("--namespace", metavar="NAME", help="With --watch: the port's network namespace."),
    ] = None,
    marks: Annotated[
        bool, typer.Option("--marks", help="With --watch: count CNPs and marked packets too.")
    ] = False,
    column: Annotated[
        str | None, typer.Option("--column", help="Of counters: which, if there are several.")
    ] = None,
    interface: Annotated[
        str | None, typer.Option("--interface", help="Of counters: the NIC, if there are several.")
    ] = None,
    unit: Annotated[
        Literal["bytes", "words4"] | None,
        typer.Option("--unit", help="Of counters: bytes or 4-byte words, if the name does not say."),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(
            "--rate", metavar="RATE", help="Of profiler traces: the rate of messages of unknown size."
        ),
    ] = None,
    gpus_per_server: Annotated[
        int | None,
        typer.Option(
            "--gpus-per-server", metavar="N", help="Of profiler traces: GPUs without a NIC between them."
        ),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="The job's name.")] = None,
    capacity: Annotated[
        str | None,
        typer.Option("--capacity", metavar="RATE", help='With --out: add a [link] of, say, "50 Gbps".'),
    ] = None,
    output: Annotated[
        Path | None, options.out_file("FILE.toml|json", "Write the jobs for `hocket compat`.")
    ] = None,
    figure: Annotated[Path | None, options.figure("Draw the evidence.")] = None,
    as_json: options.AsJson = False,
    wide: options.Wide = False,
) -> None:
    """Find the period and the Up phases of jobs in a NIC's counters, or in profiler traces that jobs left."""
    from hocket.profiling.sources import profile
    from hocket.profiling.watch import INTERRUPTED as BY_USER

    files = files or []
    if bool(files) == (device is not None):
        raise InputError(f"profile: give files or a port to --watch{', not both' if files else ''}")
    if len(files) > 1 and (name is not None or figure is not None):
        raise InputError(f"profile: --name and --figure are for one file: got {len(files)}")
    _check_output(output, capacity)
    asked = _Asked(interval, seconds, save, namespace, marks or None)
    of_files = {"interface": interface, "unit": unit, "rate": rate, "gpus_per_server": gpus_per_server}
    recording = None
    if device is None:
        _refuse(asdict(asked), "is for --watch: files hold what was read")
        with _in_files(files) as read:
            jobs = [
                profile(
                    file,
                    name=name,
                    column=column,
                    interface=interface,
                    unit=unit,
                    rate=rate,
                    gpus_per_server=gpus_per_server,
                )
                for file in read
            ]
    else:
        _refuse(of_files, f"is for files: --watch reads {device}")
        recording = _watch(device, asked)
        jobs = [recording.profile(name=name, column=column)]
    _print(jobs, recording.congestion() if recording else {}, as_json)
    _write(jobs, output, capacity, figure)
    if recording and recording.stopped == BY_USER and seconds is not None:
        raise typer.Exit(INTERRUPTED)


@contextmanager
def _in_files(files: Sequence[Path]) -> Iterator[list[Path]]:
    """The files, with standard input, `-`, in one that can be read again and again."""
    if _STANDARD_INPUT not in files:
        yield list(files)
        return
    if files.count(_STANDARD_INPUT) > 1:
        raise InputError("profile: - is standard input, which can be read once")
    with TemporaryDirectory() as directory:
        copy = Path(directory) / "stdin"
        with copy.open("wb") as file:
            copyfileobj(sys.stdin.buffer, file)
        yield [copy if each == _STANDARD_INPUT else each for each in files]


def _check_output(output: Path | None, capacity: str | None) -> None:
    """Raises `InputError` for what could not be written in the end, before the port or the files are read."""
    from hocket.profiling.job import check_jobs_file

    if output is not None:
        check_jobs_file(output)
    if capacity is not None:
        with located("--capacity"):
            parse_rate(capacity)
        if output is None:
            raise InputError("--capacity: is for --out, the file that has the [link]")


@dataclass(frozen=True)
class _Asked:
    """What a user may say of watching a port, None if not said."""

    interval: str | None
    seconds: float | None
    save: Path | None
    namespace: str | None
    marks: bool | None


def _refuse(given: Mapping[str, object], why: str) -> None:
    """Raises `InputError` for the first option that was given."""
    for name, value in given.items():
        if value is not None:
            raise InputError(f"--{name.replace('_', '-')}: {why}")


def _watch(device: str, asked: _Asked) -> "Recording":
    """Reads a port until the time is over, or somebody or something ends it."""
    from hocket.profiling.watch import LONGEST_S, open_port, watch

    if asked.seconds is not None and not 0 < asked.seconds <= LONGEST_S:
        raise InputError(f"--seconds: must be above 0 and at most {LONGEST_S}: got {asked.seconds:g}")
    with open_port(device, namespace=asked.namespace, congestion=bool(asked.marks)) as port:
        interval_s = _interval_s(port, asked.interval)
        with progress_bar() as progress:
            task = progress.add_task(f"reading {port.title}", total=asked.seconds)

            def tell(elapsed_s: float, sent_bps: float, received_bps: float) -> None:
                rates = f"{sent_bps / 1e9:.3f} Gbps sent, {received_bps / 1e9:.3f} Gbps received"
                text = f"{port.title}: {elapsed_s:.0f} s, {rates}"
                progress.update(task, completed=elapsed_s, description=text)

            recording = watch(port, interval_s=interval_s, seconds=asked.seconds, save=asked.save, tell=tell)
    if recording.stopped is not None:
        err.print(f"{escape(recording.stopped)}: {len(recording.time_ns)} readings until then")
    if asked.save is not None:
        err.print(f"readings: {asked.save}")
    return recording


def _interval_s(port: "OpenPort", asked: str | None) -> float:
    """Seconds between readings: as asked, or else as often as there is something new."""
    from hocket.profiling.watch import DEFAULT_INTERVAL_S

    lifespan_s = port.lifespan_s or 0.0
    if asked is None:
        return max(DEFAULT_INTERVAL_S, lifespan_s)
    with located("--interval"):
        interval_s = parse_duration(asked) / _PS_PER_S
    if not _SHORTEST_S <= interval_s <= _LONGEST_S:
        raise InputError(
            f"--interval: must be from {_SHORTEST_S * 1e3:g} ms to {_LONGEST_S:g} s: got {asked}"
        )
    if interval_s < lifespan_s:
        err.print(
            f"{escape(port.title)} keeps its counters' values for {lifespan_s * 1e3:g} ms: readings in "
            "between repeat them"
        )
    return interval_s


def _print(jobs: "Sequence[JobProfile]", congestion: Mapping[str, int], as_json: bool) -> None:
    """The profiles, what the port counted besides, and a warning of each that is a guess."""
    from hocket.profiling import report
    from hocket.profiling.job import TimelineEvidence

    if as_json:
        described = [report.as_json(job) for job in jobs]
        counted = {"congestion": congestion} if congestion else {}
        print_json(described if len(jobs) > 1 else {**described[0], **counted})
    for job in jobs:
        if not as_json:
            report.print_profile(job)
        if job.confidence < _SURE:
            seen = "profiler trace" if isinstance(job.evidence, TimelineEvidence) else "series"
            err.print(
                f"[yellow]warning:[/yellow] {escape(job.name)}: confidence {job.confidence:.2f} is below "
                f"{_SURE}: the {seen} does not show a clear period; do not shift jobs by it"
            )
    if congestion and not as_json:
        print_table(("counter", "while it was read"), ((name, f"{n:,}") for name, n in congestion.items()))


def _write(
    jobs: "Sequence[JobProfile]", output: Path | None, capacity: str | None, figure: Path | None
) -> None:
    """The jobs as a file for `hocket compat`, and the evidence for the first as a picture."""
    from hocket.profiling import dump_jobs

    if output is not None:
        dump_jobs(jobs, output, capacity)
    if figure is not None:
        from hocket.figures.profile import evidence_figure

        options.save_figure(evidence_figure(jobs[0]), figure)
    if output is not None:
        err.print(f"jobs: {output}")
        if capacity is None:
            err.print(
                'They are no plan yet: --capacity "50 Gbps", for example, adds the link that they share.'
            )
