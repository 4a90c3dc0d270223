"""The command `hocket profile`: profiles of jobs from their counters or profiler traces."""

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
# A profile with less confidence than this is a guess; see `JobProfile`.
_LEAST_CONFIDENCE = 0.5
_PS_PER_S = 10**12
# Limits of --interval: reading sysfs takes some microseconds, and no known job has iterations of minutes.
_SHORTEST_S = 1e-3
_LONGEST_S = 60.0


def profile_command(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE…",
            help="One file for each job: byte counters as CSV or Prometheus JSON, or a profiler trace of "
            "PyTorch (Kineto), Nsight Systems, NCCL Inspector or Chakra; - is standard input.",
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            "--watch", metavar="DEV", help="Read the counters of a port live: mlx5_0, mlx5_0:1 or eth0."
        ),
    ] = None,
    interval: Annotated[
        str | None, options.interval('With --watch: time between readings; default "10 ms".')
    ] = None,
    seconds: Annotated[
        float | None, options.seconds("With --watch: how long to read; default: until Ctrl-C.")
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            "--save",
            metavar="FILE.csv",
            callback=options.in_a_directory,
            help="With --watch: also write the readings to this file.",
        ),
    ] = None,
    namespace: Annotated[
        str | None,
        typer.Option("--namespace", metavar="NAME", help="With --watch: the port's network namespace."),
    ] = None,
    marks: Annotated[
        bool, typer.Option("--marks", help="With --watch: also count CNPs and marked packets.")
    ] = False,
    column: Annotated[
        str | None, typer.Option("--column", help="For counters: the column or metric, if there are several.")
    ] = None,
    interface: Annotated[
        str | None, typer.Option("--interface", help="For counters: the NIC, if there are several.")
    ] = None,
    unit: Annotated[
        Literal["bytes", "words4"] | None,
        typer.Option("--unit", help="For counters: bytes or 4-byte words, if the name does not show it."),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(
            "--rate", metavar="RATE", help="For profiler traces: sending rate of messages of unknown size."
        ),
    ] = None,
    gpus_per_server: Annotated[
        int | None,
        typer.Option(
            "--gpus-per-server",
            metavar="N",
            help="For profiler traces: GPUs of a server, which exchange data without a NIC.",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="The job's name.")] = None,
    capacity: Annotated[
        str | None,
        typer.Option(
            "--capacity", metavar="RATE", help='With --out: add a [link] of this capacity, such as "50 Gbps".'
        ),
    ] = None,
    output: Annotated[
        Path | None, options.out_file("FILE.toml|json", "Write the jobs for `hocket compat`.")
    ] = None,
    figure: Annotated[Path | None, options.figure("Draw the evidence for the profile.")] = None,
    as_json: options.AsJson = False,
    wide: options.Wide = False,
) -> None:
    """Find the period and the Up phases of jobs in NIC counters or profiler traces."""
    from hocket.profiling.sources import profile
    from hocket.profiling.watch import INTERRUPTED as BY_USER

    files = files or []
    if bool(files) == (device is not None):
        raise InputError(f"profile: give files or a port to --watch{', not both' if files else ''}")
    if len(files) > 1 and (name is not None or figure is not None):
        raise InputError(f"profile: --name and --figure take a single file: got {len(files)}")
    _check_output(output, capacity)
    # None, not False, if --marks is absent: `_refuse` then sees that it was not given.
    watch_options = _WatchOptions(interval, seconds, save, namespace, marks or None)
    file_options = {"interface": interface, "unit": unit, "rate": rate, "gpus_per_server": gpus_per_server}
    recording = None
    if device is None:
        _refuse(asdict(watch_options), "only with --watch: files already hold their readings")
        with _rereadable(files) as paths:
            jobs = [
                profile(
                    path,
                    name=name,
                    column=column,
                    interface=interface,
                    unit=unit,
                    rate=rate,
                    gpus_per_server=gpus_per_server,
                )
                for path in paths
            ]
    else:
        _refuse(file_options, f"only for files: --watch reads the port {device}")
        recording = _watch(device, watch_options)
        jobs = [recording.profile(name=name, column=column)]
    _print(jobs, recording.congestion() if recording else {}, as_json)
    _write(jobs, output, capacity, figure)
    if recording and recording.stopped == BY_USER and seconds is not None:
        raise typer.Exit(INTERRUPTED)


@contextmanager
def _rereadable(files: Sequence[Path]) -> Iterator[list[Path]]:
    """The files, with standard input (`-`) copied to a temporary file.

    A file is read more than once, first to recognise its kind, and a pipe can be read only once.
    """
    if _STANDARD_INPUT not in files:
        yield list(files)
        return
    if files.count(_STANDARD_INPUT) > 1:
        raise InputError("profile: - is standard input, which can be read only once")
    with TemporaryDirectory() as directory:
        copy = Path(directory) / "stdin"
        with copy.open("wb") as file:
            copyfileobj(sys.stdin.buffer, file)
        yield [copy if each == _STANDARD_INPUT else each for each in files]


def _check_output(output: Path | None, capacity: str | None) -> None:
    """Raises `InputError` for a bad --out or --capacity, before the work starts."""
    from hocket.profiling.job import check_jobs_file

    if output is not None:
        check_jobs_file(output)
    if capacity is not None:
        with located("--capacity"):
            parse_rate(capacity)
        if output is None:
            raise InputError("--capacity: only with --out, the file that the [link] is written to")


@dataclass(frozen=True)
class _WatchOptions:
    """The options of --watch, None where unspecified; the fields have the options' names."""

    interval: str | None
    seconds: float | None
    save: Path | None
    namespace: str | None
    marks: bool | None


def _refuse(given: Mapping[str, object], why: str) -> None:
    """Raises `InputError` with the reason `why` for the first option that was given."""
    for name, value in given.items():
        if value is not None:
            raise InputError(f"--{name.replace('_', '-')}: {why}")


def _watch(device: str, settings: _WatchOptions) -> "Recording":
    """Reads a port until the time is over, the user presses Ctrl-C or the port disappears."""
    from hocket.profiling.watch import LONGEST_S, open_port, watch

    if settings.seconds is not None and not 0 < settings.seconds <= LONGEST_S:
        raise InputError(f"--seconds: must be above 0 and at most {LONGEST_S}: got {settings.seconds:g}")
    with open_port(device, namespace=settings.namespace, congestion=bool(settings.marks)) as port:
        interval_s = _interval_s(port, settings.interval)
        with progress_bar() as progress:
            task = progress.add_task(f"reading {port.title}", total=settings.seconds)

            def show(elapsed_s: float, sent_bps: float, received_bps: float) -> None:
                rates = f"{sent_bps / 1e9:.3f} Gbps sent, {received_bps / 1e9:.3f} Gbps received"
                text = f"{port.title}: {elapsed_s:.0f} s, {rates}"
                progress.update(task, completed=elapsed_s, description=text)

            recording = watch(
                port,
                interval_s=interval_s,
                seconds=settings.seconds,
                save=settings.save,
                on_progress=show,
            )
    if recording.stopped is not None:
        err.print(f"{escape(recording.stopped)}: kept {len(recording.time_ns)} readings")
    if settings.save is not None:
        err.print(f"readings: {settings.save}")
    return recording


def _interval_s(port: "OpenPort", interval: str | None) -> float:
    """Seconds between readings: `interval` if given, otherwise as the port refreshes its counters."""
    from hocket.profiling.watch import DEFAULT_INTERVAL_S

    lifespan_s = port.lifespan_s or 0.0
    if interval is None:
        return max(DEFAULT_INTERVAL_S, lifespan_s)
    with located("--interval"):
        interval_s = parse_duration(interval) / _PS_PER_S
    if not _SHORTEST_S <= interval_s <= _LONGEST_S:
        raise InputError(
            f"--interval: must be from {_SHORTEST_S * 1e3:g} ms to {_LONGEST_S:g} s: got {interval}"
        )
    if interval_s < lifespan_s:
        err.print(
            f"{escape(port.title)} refreshes its counters every {lifespan_s * 1e3:g} ms: readings in between "
            "repeat the last values"
        )
    return interval_s


def _print(jobs: "Sequence[JobProfile]", congestion: Mapping[str, int], as_json: bool) -> None:
    """Prints the profiles and the port's congestion counters; warns of each profile that is a guess."""
    from hocket.profiling import report
    from hocket.profiling.job import TimelineEvidence

    if as_json:
        described = [report.as_json(job) for job in jobs]
        counted = {"congestion": congestion} if congestion else {}
        print_json(described if len(jobs) > 1 else {**described[0], **counted})
    for job in jobs:
        if not as_json:
            report.print_profile(job)
        if job.confidence < _LEAST_CONFIDENCE:
            source = "profiler trace" if isinstance(job.evidence, TimelineEvidence) else "series"
            err.print(
                f"[yellow]warning:[/yellow] {escape(job.name)}: confidence {job.confidence:.2f} is below "
                f"{_LEAST_CONFIDENCE}: the {source} does not show a clear period; do not shift jobs by it"
            )
    if congestion and not as_json:
        print_table(("counter", "increase"), ((name, f"{n:,}") for name, n in congestion.items()))


def _write(
    jobs: "Sequence[JobProfile]", output: Path | None, capacity: str | None, figure: Path | None
) -> None:
    """Writes the jobs as a file for `hocket compat`, and the evidence for the first one as a figure."""
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
                'This file is not a plan yet: --capacity "50 Gbps", for example, adds the link that '
                "the jobs share."
            )
