"""Plans as a program builds them. A line that type checkers must reject ends in a comment with the error's
name; mypy checks this file like all others, and reports an `ignore` that is not needed.
"""

import hocket
from hocket.plan import (
    Candidate,
    Change,
    Clos,
    Collectives,
    Dcqcn,
    Dumbbell,
    Fabric,
    FabricLink,
    Host,
    Job,
    LayerTable,
    Link,
    Marking,
    OperationTable,
    Plan,
    RunSettings,
    ScaleUp,
    Share,
    SkipAhead,
    Straggler,
    Switch,
    Training,
    Up,
)
from hocket.units import Duration, Rate, gbps, kb, mb, ms, us


def on_a_link() -> Plan:
    half = Job("a", period="180 ms", up=[Up("0 ms", "90 ms", "40 Gbps")])
    late = Job("b", period=ms(180), up=(Up(ms(0), ms(90), gbps(40)),), time_shift=2 * ms(45), jitter=0)
    return Plan(link=Link("50 Gbps", delay=us(1)), jobs=[half, late], run=RunSettings(iterations=5))


def on_a_fabric() -> Plan:
    up = [Up("0 ms", "1 ms", gbps(10))]
    jobs = [
        Job("ring", period="4 ms", up=up, placement=["s0", "s2"], congestion="hpcc", share={"weighted": 2}),
        Job("vgg", workload="VGG16", batch_size=[512, 1024], workers=2, window=kb(64), path="spray"),
        Job("tuned", period="4 ms", up=up, congestion=Dcqcn(preset="mlx5", gain=0.5), share=Share("fair")),
    ]
    return Plan(
        name="a name",
        seed=3,
        fabric=Fabric(
            links=[
                FabricLink(("s0", "t0"), "100 Gbps"),
                FabricLink(("s1", "t0"), gbps(100), delay=us(1), name="slow"),
                FabricLink(("s2", "t0"), "100 Gbps"),
            ]
        ),
        jobs=jobs,
        switch=Switch(buffer=mb(16), scheduling={"weighted": [1, 1, 1, 1, 2, 2, 2, 2]}, headroom=kb(50)),
        host=Host(mtu="1024 B", notification="acks"),
        candidates=[Candidate("one", {name: ["s0", "s1"] for name in ("ring", "vgg", "tuned")})],
        changes=[Change(at="1 s", link="slow", rate=gbps(50))],
        run=RunSettings(engine="packet", until="1 s", skip_ahead=SkipAhead(cycles=2)),
    )


def training() -> Plan:
    layer = LayerTable(
        "l0",
        forward=us(10),
        input_gradient=us(10),
        weight_gradient="10 us",
        weights=mb(1),
    )
    operations = [
        OperationTable("compute", compute=us(5)),
        OperationTable("reduce", collective="all-reduce", bytes=mb(1), after=["compute"]),
    ]
    fabric = Fabric(dumbbell=Dumbbell(left=1, right=1, gpus_per_server=2), scale_up=True)
    jobs = [
        Job(
            "layers",
            training=Training(layers=[layer], buckets=True),
            stragglers=[Straggler(rank=0, slowdown=2)],
        ),
        Job(
            "list",
            training=Training(operations=operations),
            collectives=Collectives(all_reduce=["ring", "tree"]),
        ),
    ]
    return Plan(fabric=fabric, jobs=jobs)


def changed(plan: Plan) -> Plan:
    jobs = [job.replace(time_shift=None, congestion="dctcp") for job in plan.jobs]
    return plan.replace(jobs=jobs, seed=2, link=hocket.Link("40 Gbps"), run=None)


def shifted(plan: Plan) -> hocket.Run:
    return hocket.simulate(plan.shifted(hocket.compatibility(plan)))


def what_a_plan_holds(plan: Plan) -> tuple[int, int, str, Duration, Rate]:
    link = plan.link or Link("50 Gbps")
    return plan.seed, link.capacity_bps, plan.jobs[0].name, ms(1) + us(1), gbps(1) / 2


def refused(plan: Plan) -> None:
    up = Up("0 ms", "90 ms", "40 Gbps")
    Job("a", perod="180 ms", up=[up])  # type: ignore[call-arg]
    Job(period="180 ms", up=[up])  # type: ignore[call-arg]
    Job("a", Training(collective="all-reduce"))  # type: ignore[call-arg]
    Job("a", period=180)  # type: ignore[arg-type]
    Job("a", period=gbps(40))  # type: ignore[arg-type]
    Job("a", period="180 ms", up=up)  # type: ignore[arg-type]
    Job("a", period="180 ms", up=["0 ms"])  # type: ignore[list-item]
    Job("a", congestion="cubic")  # type: ignore[arg-type]
    Job("a", congestion=Dcqcn(preset="mlx6"))  # type: ignore[arg-type]
    Job("a", share="weighted")  # type: ignore[arg-type]
    Up("0 ms", "90 ms")  # type: ignore[call-arg]
    Up("0 ms", "90 ms", 40)  # type: ignore[arg-type]
    Up("0 ms", "90 ms", ms(40))  # type: ignore[arg-type]
    Link(50)  # type: ignore[arg-type]
    Link("50 Gbps", "500 ns")  # type: ignore[call-arg]
    Fabric(clos=Dumbbell(left=1, right=1))  # type: ignore[arg-type]
    Fabric(clos=Clos())  # type: ignore[call-arg]
    Fabric(scale_up=ScaleUp(rate=mb(1)))  # type: ignore[arg-type]
    Marking(rate="25 Gbps", minimum="1 kB", maximum="2 kB")  # type: ignore[call-arg]
    RunSettings(engine="pakcet")  # type: ignore[arg-type]
    Training(collective="all-reduce", size="1 MB")  # type: ignore[call-arg]
    Plan(link=Link("50 Gbps"))  # type: ignore[call-arg]
    Plan(link="50 Gbps", jobs=[Job("a")])  # type: ignore[arg-type]
    Plan(link=Link("50 Gbps"), jobs=[{"name": "a"}])  # type: ignore[list-item]
    Plan(jobs=[Job("a")], sede=3)  # type: ignore[call-arg]
    plan.replace(job=[Job("a")])  # type: ignore[call-arg]
    plan.replace(seed="2")  # type: ignore[arg-type]
    plan.shifted({"a": "90 ms"})  # type: ignore[arg-type]
    plan.jobs[0].replace(time_shift=90)  # type: ignore[arg-type]
    print(ms(1) + gbps(1))  # type: ignore[operator]
    print(ms(1) < kb(1))  # type: ignore[operator]
