"""What each target claims, what we find and the verdict: the lines of the table in docs/validation.md."""

from hocket_reproduce.targets.target import Finding

FINDINGS = {
    "H1": Finding(
        "Unfair DCQCN makes both of two VGG19 jobs 1.23× faster",
        "{J* median speed-up} on flows with weights of 2:1, with the catalogue's VGG19 "
        "{J* median speed-up, catalogue's VGG19 (1400)}; on packets "
        "{packets: J* median speed-up in 20 iterations} over 20 iterations and "
        "{packets: J* median speed-up in 1,000 iterations without jitter} over 1,000",
        "differs",
        "on packets, jobs with equal timers slide apart too, so no gain lasts",
    ),
    "H2": Finding(
        "Under unfairness the jobs separate by iteration 4; under fairness they never do",
        "separate in iteration {first iteration with less than 5% overlap} on flows and "
        "{packets: first iteration with less than 5% overlap, unfair} on packets, where fair jobs follow in "
        "iteration {packets: first iteration with less than 5% overlap, fair}",
        "differs",
        "on packets, jobs with equal timers slide apart too, only later",
    ),
    "H3": Finding(
        "Unfairness speeds up every job of compatible groups (1.01–1.30×), and slows one elsewhere",
        "compatibility agrees in {#group *: fully compatible} groups, and whether a job slows down in "
        "{#group *: unfairness slows no job} on flows and {#group *, packets: unfairness slows no job} on "
        "packets; times differ by up to {±group *: *, *}",
        "same conclusion",
    ),
    "H4": Finding(
        "Turning J1 by 30° makes jobs of 40 and 60 ms fully compatible",
        "{rotation of J1 against J2} on a circle of {unified circle of 40 and 60 ms}",
        "reproduced",
    ),
    "H5": Finding(
        "Adaptive unfairness makes compatible jobs interleave; incompatible ones share fairly (no numbers)",
        "compatible pairs interleave and run {DLRM ×2: speed-up of * over fair} and "
        "{WideResNet101 + VGG16: speed-up of * over fair} faster, on packets "
        "{packets, WideResNet101 + VGG16: speed-up of * over fair}; the rates of an incompatible pair have a "
        "ratio of {RoBERTa ×2: ratio of mean rates}",
        "same conclusion",
    ),
    "H6": Finding(
        "A unique priority for each job works as unfairness does (Table 1's times)",
        "times within {±*group *: * with its own priority} of Table 1's; the gain needs a queue per job: 8 "
        "jobs are slowed {8 jobs on 8 queues: slowdown} on 8 queues and {8 jobs on 2 queues: slowdown} on 2",
        "reproduced",
    ),
    "H7": Finding(
        "Time-shifts keep phases apart, with under 2 adjustments per minute (NSDI'24)",
        "iterations of {mean iteration with shifts and agent} (alone 255 ms); adjustments per minute "
        "{snapshot *, slots that last: most adjustments per minute} where slots leave room for jitter, and "
        "{snapshot *, slots an ideal iteration apart: most adjustments per minute} where not",
        "same conclusion",
    ),
    "H8": Finding(
        "Compatibility extends to clusters, shared GPUs and batch sizes (proposed, no numbers)",
        "one circle of {perimeter over all jobs that share a link anywhere} for the cluster; no overlapping "
        "compute on a shared GPU; the best batch size, {batch size of VGG16 with the best score}, scores "
        "{score at that batch size}",
        "same conclusion",
    ),
    "R3": Finding(
        "Incast: PAUSE frames under PFC alone; TIMELY finishes last, the others together",
        "PAUSE frames under PFC alone, but for {TIMELY: PAUSE frames} under TIMELY; all finish within "
        "{PFC only: the last of the seven ends} under PFC alone, {TIMELY: the last of the seven ends} under "
        "TIMELY, {DCQCN: the last of the seven ends} under DCQCN",
        "differs",
        "the paper's tuning is unpublished: DCQCN recovers slowly, DCTCP's window holds its queue",
    ),
    "R4": Finding(
        "Collectives on one switch: flat queues, no PAUSE frames, equal completion times",
        "flat queues in {#* GPUs: flat queues} sizes, no PAUSE frames in "
        "{#* GPUs: PAUSE frames under any policy}, equal times in {#* GPUs: equal completion times of *}",
        "differs",
        "HPCC's larger headers and target of 95% cost 7 to 11%",
    ),
    "R5": Finding(
        "All-To-All on a Clos network: four peaks, constant ToRs, differing spines, TIMELY last",
        "with 2:1 uplinks {2:1, *: peaks of the queues} peaks, constant ToRs under "
        "{#2:1, *: ToRs in a constant range} policies, spines differ under {#2:1, *: spines differ}; with "
        "1:1 {1:1, *: peaks of the queues} peaks and no constant ToRs; {*: who finishes last} is last",
        "differs",
        "queues match with 2:1 uplinks alone; HPCC's headers outweigh TIMELY's cuts",
    ),
    "R6": Finding(
        "PFC alone is as fast as the best; TIMELY is worst; 2D clearly beats 1D",
        "PFC alone is as fast as the best in "
        "{#*: PFC only takes as long as the best, or is the best} collectives; TIMELY is last in "
        "{#*: who finishes last}; 2D beats 1D under {#*: 2D is clearly faster than 1D} policies, "
        "{All-Reduce 2D, PFC only} against {All-Reduce 1D, PFC only} under PFC alone",
        "differs",
        "HPCC (headers) or DCQCN (untuned) is last, not TIMELY",
    ),
    "R7": Finding(
        "DLRM: policies less than 4% apart, HPCC worst; 2D much better than 1D",
        "iterations of {1D, *: iteration} in 1D and {2D, *: iteration} in 2D, by policy; "
        "{*D: the worst policy} is worst",
        "differs",
        "policies are 12 to 17% apart; the paper's compute times are unpublished",
    ),
    "R8": Finding(
        "Windows set once from the pattern could replace PFC (proposed, no numbers)",
        "{*: PAUSE frames} PAUSE frames; iterations of single jobs within {±*: iteration} of those under PFC "
        "alone, but an All-Reduce beside DLRM takes {±DLRM + All-Reduce: iteration of All-Reduce} longer",
        "same conclusion",
    ),
    "C1": Finding(
        "One phase (data), three peaks and one (pipeline), 25 Gbps (tensor), six phases (hybrid)",
        "{GPT-1 (data): stretches of traffic per iteration} phase, "
        "{GPT-2 (pipeline): small peaks beside the large one} peaks and one, "
        "{GPT-3 (tensor): rate forward and backward}, {GPT-3 (hybrid): phases by purpose} phases, of which "
        "{GPT-3 (hybrid): phases that the port's counter tells apart} show at the port",
        "same conclusion",
    ),
    "C2": Finding(
        "A shift of 120 ms makes 90th percentile iterations 1.26× faster",
        "{j*: 90th percentile, gain by shift of 120 ms} by that shift, "
        "{j*: 90th percentile, gain by our shift} by our {shift of j2}",
        "same conclusion",
    ),
    "C3": Finding(
        "The score is 1 for full compatibility, and may be negative",
        "{#score of *} scores equal Equation 2's by hand, {#optimum of *} optima those proven by CP-SAT",
        "reproduced",
    ),
    "C4": Finding(
        "One time-shift per job keeps each link's shifts; looped graphs are discarded",
        "{#l*: *} shifts and scores of links are kept, {#a loop whose shifts do not close} loop is "
        "discarded; {shift of j3 against j1} across two links, as by hand",
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
        "Themis, {Pollux ÷ Po+CASSINI: mean iteration} and "
        "{Pollux ÷ Po+CASSINI: 99th percentile of iterations} over Pollux",
        "differs",
        "few jobs share links: slowdowns are only {Themis: slowdown} and {Pollux: slowdown}",
    ),
    "C14": Finding(
        "Model parallel: iterations 1.2× faster on average, 1.6× at the 99th percentile",
        "{Themis ÷ Th+CASSINI: mean iteration} and {Themis ÷ Th+CASSINI: 99th percentile of iterations} over "
        "Themis, {Pollux ÷ Po+CASSINI: mean iteration} and "
        "{Pollux ÷ Po+CASSINI: 99th percentile of iterations} over Pollux",
        "differs",
        "few jobs share links: slowdowns are only {Themis: slowdown} and {Pollux: slowdown}",
    ),
    "C15": Finding(
        "1.5× and 2.2× over Themis, 1.6× and 2.5× over Pollux; DLRM's marks 27× fewer",
        "{Themis ÷ Th+CASSINI: mean iteration} and {Themis ÷ Th+CASSINI: 99th percentile of iterations} over "
        "Themis, {Pollux ÷ Po+CASSINI: mean iteration} and "
        "{Pollux ÷ Po+CASSINI: 99th percentile of iterations} over Pollux; DLRM's marks: "
        "{DLRM: ECN marks, Themis ÷ Th+CASSINI}, on a full cluster "
        "{a full cluster of Table 2's jobs: DLRM: ECN marks, Themis ÷ Th+CASSINI} fewer",
        "differs",
        "Themis keeps jobs in racks (slowdown {Themis: slowdown}); Pollux gives DLRM one worker",
    ),
    "C16": Finding(
        "Model parallel: 1.2× and 1.6× over Themis; ECN marks 29× fewer",
        "{Themis ÷ Th+CASSINI: mean iteration} and {Themis ÷ Th+CASSINI: 99th percentile of iterations}; "
        "Themis has {all models: ECN marks, Themis ÷ Th+CASSINI} the marks of Th+CASSINI",
        "differs",
        "little contention: Themis alone has a slowdown of {Themis: slowdown}",
    ),
    "C17": Finding(
        "Scores 1.0, 1.0, 0.9, 0.8, 0.6; shifts shorten communication, from 205 to 138 ms",
        "scores within {±snapshot *: score}; communication of the same job from "
        "{snapshot 1: wideresnet101 communication, Themis} to "
        "{snapshot 1: wideresnet101 communication, Th+CASSINI}; communication times differ by up to "
        "{±snapshot *: * communication, *}",
        "same conclusion",
    ),
    "C18": Finding(
        "Servers of two GPUs: 1.4× on average, 1.9× at the 99th percentile",
        "{Themis ÷ Th+CASSINI: mean iteration} and {Themis ÷ Th+CASSINI: 99th percentile of iterations}; at "
        "the paper's instant, placed by hand, "
        "{the paper's instant: DLRM beside XLM ÷ beside ResNet50, mean iteration} and "
        "{the paper's instant: DLRM beside XLM ÷ beside ResNet50, 99th percentile of iterations}",
        "differs",
        "three GPUs are free when DLRM arrives, so Themis has one candidate",
    ),
    "C19": Finding(
        "5° is where time-shifts are 100% accurate at low cost; finer costs more",
        "{accuracy at 5°} at 5° and {accuracy at 90°} at 90°; finer steps cost hardly more time",
        "same conclusion",
    ),
    "C20": Finding(
        "ResNet50 has fewer ECN marks than other models",
        "fewer than their mean under {#*: ResNet50 against the mean of the other models} schedulers",
        "reproduced",
    ),
    "C21": Finding(
        "A few iterations of port counters give each job's traffic (no numbers)",
        "{profiles that are sure} of 59 profiles are sure; their periods are off by at most "
        "{period, the largest error of a sure profile}, their Up times by "
        "{Up time, the largest error of a sure profile}",
        "same conclusion",
    ),
    "X1": Finding(
        "Two VGG19 jobs take as long on both engines",
        "{±two jobs, shifted by half a period: *, *} apart when alone or shifted; up to "
        "{±two jobs, equal timers: *, *} when they share, {±two jobs, own priorities: *, *} with priorities",
        "differs",
        "DCQCN's shares are no fixed weights, and cut rates recover slowly",
    ),
    "X2": Finding(
        "Training jobs take as long on both engines",
        "lone collectives within {±* of * over * ranks, busbw}, DLRM within {±DLRM, *, *, *, iteration}; "
        "broadcasts in a row differ by up to {±broadcasts of 4 MB one after another, *, iteration}",
        "same conclusion",
    ),
    "X3": Finding(
        "The flow engine's model counts as many ECN marks as packets",
        "{marks on packets ÷ the model's, median} times the model's in the median; single jobs of snapshots "
        "differ by up to {±snapshot *, *, marks per iteration}",
        "differs",
        "the model shares marks by bytes, and does not stretch cut phases",
    ),
    "LIVE": Finding(
        "Real training jobs iterate as the flow engine predicts",
        "alone within {±*, * alone: mean iteration}; shifts gain "
        "{compatible, shifts: gain over no shifts in the last half} where jobs are compatible, "
        "{incompatible, shifts: gain over no shifts in the last half} where not",
        "differs",
        "adaptive increase, and shifts of incompatible jobs, gain less live",
    ),
}
"""The finding of each target, by its id."""
