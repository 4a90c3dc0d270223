"""The claim, our result and the verdict for each target: the lines of the table in docs/validation.md; and
what the targets say together about the gains of NSDI'24.

Claims and results have about 15 words each, so that the table is an overview; the pages have all numbers.
"""

from collections.abc import Iterator

from hocket_reproduce.targets.target import Finding

FINDINGS = {
    "H1": Finding(
        "Unfair DCQCN makes both of two VGG19 jobs 1.23× faster",
        "flows: {J* median speed-up}; packets: {packets: J* median speed-up in 20 iterations} over 20 "
        "iterations, {packets: J* median speed-up in 1,000 iterations without jitter} over 1,000",
        "differs",
        "on packets, fair jobs (equal timers) separate too",
    ),
    "H2": Finding(
        "Unfairness separates the jobs by iteration 4; fairness never does",
        "iteration {first iteration with less than 5% overlap} on flows, "
        "{packets: first iteration with less than 5% overlap, unfair} on packets; fair jobs on packets: "
        "iteration {packets: first iteration with less than 5% overlap, fair}",
        "differs",
        "on packets, fair jobs (equal timers) separate too, but later",
    ),
    "H3": Finding(
        "Unfairness speeds up all jobs of compatible groups (1.01–1.30×); in others, one slows down",
        "same compatibility in {#group *: fully compatible} groups, same slowdowns in "
        "{#group *: unfairness slows no job}; times within {±group *: *, *}",
        "same conclusion",
    ),
    "H4": Finding(
        "Rotating J1 by 30° makes jobs of 40 and 60 ms fully compatible",
        "{rotation of J1 against J2} on a circle of {unified circle of 40 and 60 ms}",
        "reproduced",
    ),
    "H5": Finding(
        "Adaptive unfairness interleaves compatible jobs; incompatible ones share fairly (no numbers)",
        "compatible jobs gain {*: speed-up of * over fair}, {packets, *: speed-up of * over fair} on "
        "packets; incompatible jobs share {RoBERTa ×2: ratio of mean rates}:1",
        "same conclusion",
    ),
    "H6": Finding(
        "A unique priority for each job has the same effect as unfairness (Table 1's times)",
        "times within {±*group *: * with its own priority}; slowdown of 8 jobs: "
        "{8 jobs on 8 queues: slowdown} on 8 queues, {8 jobs on 2 queues: slowdown} on 2",
        "reproduced",
    ),
    "H7": Finding(
        "Time-shifts keep phases apart, with under 2 adjustments per minute (NSDI'24)",
        "{mean iteration with shifts and agent} per iteration (255 alone); adjustments/min "
        "{snapshot *, slots that last: most adjustments per minute} with slack, "
        "{snapshot *, slots an ideal iteration apart: most adjustments per minute} without",
        "same conclusion",
    ),
    "H8": Finding(
        "Compatibility extends to clusters, shared GPUs and batch sizes (proposed, no numbers)",
        "one circle of {perimeter over all jobs that share a link anywhere}; overlap on a shared GPU: "
        "{compute overlap on a shared GPU}; best batch size {batch size of VGG16 with the best score}",
        "same conclusion",
    ),
    "R3": Finding(
        "Incast: PAUSE frames only with PFC alone; TIMELY finishes last, all others together",
        "{TIMELY: PAUSE frames} PAUSE frames with TIMELY too; {who finishes last} finishes last: "
        "{DCQCN: the last of the seven ends}, PFC alone {PFC only: the last of the seven ends}",
        "differs",
        "untuned DCQCN recovers slowly; DCTCP's queue stays at its window",
    ),
    "R4": Finding(
        "One switch: flat queues, no PAUSE frames, equal completion times",
        "flat queues: {#* GPUs: flat queues} sizes; no PAUSE frames: "
        "{#* GPUs: PAUSE frames under any policy}; equal times: {#* GPUs: equal completion times of *}",
        "differs",
        "HPCC's larger headers and target of 95% cost 7 to 11%",
    ),
    "R5": Finding(
        "Clos network, All-To-All: four peaks, constant ToRs, differing spines, TIMELY last",
        "{#2:1, *: *} queue observations agree with 2:1 uplinks, {#1:1, *: *} with 1:1; "
        "{*: who finishes last} is last",
        "differs",
        "only 2:1 matches; HPCC's headers cost more than TIMELY's cuts",
    ),
    "R6": Finding(
        "PFC alone is as fast as the best; TIMELY is worst; 2D clearly beats 1D",
        "true for PFC in {#*: PFC only takes as long as the best, or is the best}, for TIMELY in "
        "{#*: who finishes last}, for 2D in {#*: 2D is clearly faster than 1D}",
        "differs",
        "HPCC (larger headers) or DCQCN (untuned) is last, not TIMELY",
    ),
    "R7": Finding(
        "DLRM: policies less than 4% apart, HPCC worst; 2D much better than 1D",
        "{1D, *: iteration} in 1D, {2D, *: iteration} in 2D; {*D: the worst policy} is worst",
        "differs",
        "12 to 17% apart; the paper's compute times are unpublished",
    ),
    "R8": Finding(
        "Windows set once from the traffic pattern could replace PFC (proposed, no numbers)",
        "{*: PAUSE frames} PAUSE frames; single jobs within {±*: iteration} of PFC alone, All-Reduce beside "
        "DLRM {±DLRM + All-Reduce: iteration of All-Reduce} slower",
        "same conclusion",
    ),
    "C1": Finding(
        "Data: one phase; pipeline: three small peaks, one large; tensor: 25 Gbps; hybrid: six phases",
        "{GPT-1 (data): stretches of traffic per iteration} phase, "
        "{GPT-2 (pipeline): small peaks beside the large one} small peaks, "
        "{GPT-3 (tensor): rate forward and backward}, {GPT-3 (hybrid): phases by purpose} phases "
        "({GPT-3 (hybrid): phases that the port's counter tells apart} visible at the port)",
        "same conclusion",
    ),
    "C2": Finding(
        "A shift of 120 ms makes iterations 1.26× faster at the 90th percentile",
        "{j*: 90th percentile, gain by shift of 120 ms} with that shift, "
        "{j*: 90th percentile, gain by our shift} with ours of {shift of j2}",
        "same conclusion",
    ),
    "C3": Finding(
        "The score is 1 for full compatibility, and may be negative",
        "{#score of *} scores match Equation 2 by hand, {#optimum of *} optima match CP-SAT's",
        "reproduced",
    ),
    "C4": Finding(
        "One time-shift per job keeps each link's shifts; looped graphs are discarded",
        "{#l*: *} shifts and scores kept, {#a loop whose shifts do not close} loop discarded; "
        "shift across two links: {shift of j3 against j1}",
        "reproduced",
    ),
    "C9": Finding(
        "Fewer than 2 adjustments per minute in snapshots 1 to 3",
        "{snapshot *, 1% jitter: most adjustments per minute} with 1% jitter, "
        "{snapshot *, 2% jitter: most adjustments per minute} with 2%, "
        "{snapshot *, 5% jitter: most adjustments per minute} with 5%",
        "reproduced",
    ),
    "C13": Finding(
        "Mixed models: iterations 1.6× faster on average, 1.8× at the 99th percentile",
        "{Themis ÷ Th+CASSINI: mean iteration} and {Themis ÷ Th+CASSINI: 99th percentile of iterations} over "
        "Themis; with long jobs and lost goodput "
        "{jobs of several epochs, the testbed's goodput: Themis ÷ Th+CASSINI: mean iteration} and "
        "{jobs of several epochs, the testbed's goodput: Themis ÷ Th+CASSINI: 99th percentile of "
        "iterations}",
        "differs",
        "slowdowns of {Themis: slowdown} and {Pollux: slowdown} leave less to gain",
    ),
    "C14": Finding(
        "Model parallel: iterations 1.2× faster on average, 1.6× at the 99th percentile",
        "{Themis ÷ Th+CASSINI: mean iteration} and {Themis ÷ Th+CASSINI: 99th percentile of iterations} over "
        "Themis; with long jobs and lost goodput "
        "{jobs of several epochs, the testbed's goodput: Themis ÷ Th+CASSINI: mean iteration} and "
        "{jobs of several epochs, the testbed's goodput: Themis ÷ Th+CASSINI: 99th percentile of "
        "iterations}",
        "differs",
        "the gains need lost goodput; over Pollux there are none",
    ),
    "C15": Finding(
        "1.5×, 2.2× (99th percentile) over Themis, 1.6×, 2.5× over Pollux; DLRM's marks 27× fewer",
        "{Themis ÷ Th+CASSINI: mean iteration} and {Themis ÷ Th+CASSINI: 99th percentile of iterations} over "
        "Themis; "
        "{S from profiles, the testbed's goodput: Themis ÷ Th+CASSINI: mean iteration} and "
        "{S from profiles, the testbed's goodput: Themis ÷ Th+CASSINI: 99th percentile of "
        "iterations} with profiles, lost goodput; DLRM's marks: {DLRM: ECN marks, Themis ÷ Th+CASSINI}",
        "differs",
        "little contention (Themis: slowdown {Themis: slowdown}); Pollux gives DLRM one worker",
    ),
    "C16": Finding(
        "Model parallel: 1.2×, 1.6× (99th percentile) over Themis; ECN marks 29× fewer",
        "{Themis ÷ Th+CASSINI: mean iteration} and {Themis ÷ Th+CASSINI: 99th percentile of iterations}; "
        "{the testbed's goodput: Themis ÷ Th+CASSINI: mean iteration} and "
        "{the testbed's goodput: Themis ÷ Th+CASSINI: 99th percentile of iterations} with lost "
        "goodput; marks {all models: ECN marks, Themis ÷ Th+CASSINI} fewer",
        "differs",
        "the tail's gain needs lost goodput; marks remain",
    ),
    "C17": Finding(
        "Scores 1.0, 1.0, 0.9, 0.8, 0.6; shifts shorten communication, from 205 to 138 ms",
        "scores within {±snapshot *: score}; from {snapshot 1: wideresnet101 communication, Themis} to "
        "{snapshot 1: wideresnet101 communication, Th+CASSINI}; communication times within "
        "{±snapshot *: * communication, *}",
        "same conclusion",
    ),
    "C18": Finding(
        "Servers of two GPUs: 1.4× on average, 1.9× at the 99th percentile",
        "{Themis ÷ Th+CASSINI: mean iteration} and {Themis ÷ Th+CASSINI: 99th percentile of iterations}; "
        "{VGG16 arrives with DLRM: Themis ÷ Th+CASSINI: mean iteration} and "
        "{VGG16 arrives with DLRM: Themis ÷ Th+CASSINI: 99th percentile of iterations} if VGG16 arrives too; "
        "{the paper's instant: DLRM beside XLM ÷ beside ResNet50, mean iteration} and "
        "{the paper's instant: DLRM beside XLM ÷ beside ResNet50, 99th percentile of iterations} by hand",
        "differs",
        "only three GPUs are free, so Themis has one candidate",
    ),
    "C19": Finding(
        "5° makes time-shifts 100% accurate at low cost; finer steps cost more",
        "{accuracy at 5°} at 5° and {accuracy at 90°} at 90°; finer steps hardly cost more time",
        "same conclusion",
    ),
    "C20": Finding(
        "ResNet50 has fewer ECN marks than other models",
        "fewer than the others' mean under {#*: ResNet50 against the mean of the other models} schedulers",
        "reproduced",
    ),
    "C21": Finding(
        "A few iterations of port counters give each job's traffic (no numbers)",
        "{profiles that are sure} of 59 profiles are confident; their periods within "
        "{period, the largest error of a sure profile}, Up times within "
        "{Up time, the largest error of a sure profile}",
        "same conclusion",
    ),
    "B1": Finding(
        "MonkeyTree completes jobs 14% sooner than the next best (1,024 GPUs, 4:1)",
        "{packed, next best ÷ MonkeyTree: mean completion} for packed jobs, "
        "{at random, next best ÷ MonkeyTree: mean completion} for jobs at random places (256 GPUs)",
        "differs",
        "it depends on the placement, which was not at hand",
    ),
    "X1": Finding(
        "Two VGG19 jobs take equally long on both engines",
        "{±two jobs, shifted by half a period: *, *} apart when shifted; up to "
        "{±two jobs, equal timers: *, *} with equal timers, {±two jobs, own priorities: *, *} with "
        "priorities",
        "differs",
        "DCQCN has no fixed weights, and cut rates recover slowly",
    ),
    "X2": Finding(
        "Training jobs take equally long on both engines",
        "lone collectives within {±* of * over * ranks, busbw}, DLRM within {±DLRM, *, *, *, iteration}; "
        "consecutive broadcasts differ by up to {±broadcasts of 4 MB one after another, *, iteration}",
        "same conclusion",
    ),
    "X3": Finding(
        "The flow engine's model counts as many ECN marks as the packet engine",
        "packets ÷ model: {marks on packets ÷ the model's, median} in the median; single jobs differ by up "
        "to {±snapshot *, *, marks per iteration}",
        "differs",
        "the model divides marks by bytes and lengthens no phase",
    ),
    "LIVE": Finding(
        "Real training jobs iterate as the flow engine predicts",
        "alone within {±*, * alone: mean iteration}; shifts gain "
        "{compatible, shifts: gain over no shifts in the last half} for compatible jobs, "
        "{incompatible, shifts: gain over no shifts in the last half} for incompatible ones",
        "differs",
        "adaptive increase, and shifting incompatible jobs, gain less than predicted",
    ),
}
"""The finding of each target, by its id."""

_READINGS = (
    ("C13", "mixed models", "1.6×, 1.8×", "jobs of several epochs, the testbed's goodput: "),
    ("C14", "model parallel", "1.2×, 1.6×", "jobs of several epochs, the testbed's goodput: "),
    ("C15", "DLRM and ResNet50 arrive", "1.5×, 2.2×", "S from profiles, the testbed's goodput: "),
    ("C16", "model-parallel jobs arrive", "1.2×, 1.6×", "the testbed's goodput: "),
    ("C18", "two GPUs per server", "1.4×, 1.9×", "VGG16 arrives with DLRM, the testbed's goodput: "),
)
"""Each target, its jobs, the paper's factors, and the prefix of the rows with all readings together."""


def _gains_of(target: str, jobs: str, paper: str, prefix: str) -> Iterator[str]:
    """Two lines of the table of gains over Themis: as the paper ranks candidates, and as Hocket does."""
    for ranking, augmented in (("the paper's", "Th+CASSINI"), ("Hocket's", "Th+CASSINI (fabric)")):
        gain = f"Themis ÷ {augmented}: "
        cells = (
            f"{target}, {jobs}",
            paper,
            ranking,
            f"{{~{target} {gain}mean iteration}}",
            f"{{~{target} {gain}mean iteration by time}}",
            f"{{~{target} {prefix}{gain}mean iteration by time}}",
            f"{{~{target} {prefix}{gain}99th percentile of iterations by time}}",
        )
        yield f"| {' | '.join(cells)} |"


GAINS = (
    "## How much of CASSINI's gains comes out",
    "NSDI'24 reports iterations that are 1.2 to 1.6 times faster on average with CASSINI. That depends on "
    "how much jobs contend under the scheduler alone, and the text leaves open much of what decides this. "
    "The gains below are over Themis, where CASSINI ranks candidates by the paper's Algorithm 2 or by "
    "Hocket's default ('fabric' on the page). They have 95% intervals over five seeds; one that contains "
    "1 shows no gain.",
    "\n".join(
        (
            "| | the paper: mean, 99th percentile | ranking | mean | mean by time | "
            "all readings: mean by time | all readings: 99th percentile by time |",
            "|---|---|---|---|---|---|---|",
            *(line for each in _READINGS for line in _gains_of(*each)),
        )
    ),
    "*Mean* counts every iteration alike, on links that lose nothing. *By time*, an iteration counts as "
    "long as it takes, which it does if the points of the paper's time series are instants. *All "
    "readings* adds what other parts of the papers support: links lose goodput to contention, as the "
    "testbed's do in H3 and C17; jobs of C13 and C14 live through several epochs; in C15, Themis's S "
    "comes from profiles; in C18, VGG16 arrives with DLRM.",
    "**What comes out:** with all readings together and by time, the gains of C14, on average and at the "
    "99th percentile, with either ranking. Those of C16 are as large, but they vary so much between seeds "
    "that with the paper's ranking the interval contains 1, and so shows no gain. Of the gains of C13 and "
    "C15 a part comes out, and the 99th percentile of C13 with Hocket's ranking alone. Most of this needs "
    "links that lose goodput: on links that lose nothing, jobs of C13 that live through several epochs "
    "gain {~C13 jobs of several epochs: Themis ÷ Th+CASSINI: mean iteration by time} by time.",
    "**What does not:** the same gains on links that lose nothing; the mean gain of C13 where every "
    "iteration counts alike, which with all readings is {~C13 jobs of several epochs, the testbed's "
    "goodput: Themis ÷ Th+CASSINI: mean iteration}; gains over Pollux ({~C13 Pollux ÷ Po+CASSINI "
    "(fabric): mean iteration} in C13, {~C15 Pollux ÷ Po+CASSINI (fabric): mean iteration} in C15), whose "
    "jobs hardly contend in C13 (a slowdown of {C13 Pollux: slowdown}, where Themis has {C13 Themis: "
    "slowdown}), and of whose decisions in C15 {C15 Po+CASSINI (fabric): decisions with a single "
    "candidate} leave CASSINI no choice; the gains on servers of two GPUs (C18); and the factors of ECN "
    "marks ({C15 DLRM: ECN marks, Themis ÷ Th+CASSINI} instead of 27× for DLRM in C15).",
    "**Where the gains come from:** better placements, and hardly from taking turns. {C13 Th+CASSINI "
    "(fabric): sets of jobs that share links and get slots} of the sets of jobs that share links in C13 "
    "get slots. Without any slots, Themis ÷ Th+CASSINI is {~C13 no slots: Themis ÷ Th+CASSINI, mean "
    "slowdown} in slowdown there, and with them {~C13 Themis ÷ Th+CASSINI: mean slowdown}.",
    "**What they rest on:** Themis draws the GPUs of a winner within the region that it won; packed into "
    "few racks, jobs of C13 gain {~C13 packed places: Themis ÷ Th+CASSINI, mean slowdown} in slowdown. "
    "CASSINI has a choice only if there are several candidates: in C13, {C13 Th+CASSINI (fabric): "
    "decisions with a single candidate} of the decisions have one, and {C13 jobs of several epochs: "
    "Th+CASSINI (fabric): decisions with a single candidate} with longer jobs. The tree matters less: the "
    "gain in slowdown is {C13 a tree of *: Themis ÷ Th+CASSINI (fabric), mean slowdown} on other regular "
    "trees with as many switches and links, and {C13 Themis ÷ Th+CASSINI (fabric): mean slowdown} on "
    "ours. Drawn places and all readings were chosen with first results known. The goodput is fitted to "
    "H3 and C17 alone.",
)
"""What the targets say together about the gains of NSDI'24, in paragraphs and a table; quotes are those of
`Finding`, with the target before the name of the row.
"""
