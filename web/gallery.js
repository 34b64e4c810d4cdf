// Runs worth seeing: what they show in three sentences, and something to try.

import { fresh, side } from "./state.js";

const SLEEPER = `{
    "global": {"duration": 1},
    "tasks": {
        "sleeper": {"loop": -1, "run": 2000, "timer": {"ref": "unique", "period": 17000}},
        "hog": {"loop": -1, "run": 1000}
    }
}`;

const SLICES = `{
    "global": {"duration": 1},
    "tasks": {
        "quick": {"loop": -1, "run": 500, "timer": {"ref": "unique", "period": 10000}},
        "batch": {"instance": 4, "loop": -1, "run": 1000}
    }
}`;

/** Processes of three users, which differ by their number of threads alone. */
function processes(...threads) {
  const tasks = ["alice", "bob", "carol"].flatMap((name, place) => {
    const others = threads[place] - 1;
    const work = { loop: -1, run: 1000 };
    if (!others) return [[name, { kind: "process", ...work }]];
    return [[name, { kind: "process", loop: 1, phases: { begin: { loop: others, fork: `${name}.thread` }, work } }], [`${name}.thread`, { instance: 0, ...work }]];
  });
  return JSON.stringify({ global: { duration: 1 }, tasks: Object.fromEntries(tasks) }, null, 4);
}

const REALTIME = `{
    "global": {"duration": 3},
    "tasks": {
        "realtime": {"policy": "SCHED_FIFO", "priority": 50, "loop": -1, "run": 1000},
        "shell": {"loop": -1, "run": 1000}
    }
}`;

const SESSIONS = `{
    "global": {"duration": 1},
    "tasks": {
        "compiler": {"kind": "process", "instance": 8, "loop": -1, "run": 1000},
        "player": {"kind": "process", "loop": -1, "run": 4000, "timer": {"ref": "unique", "period": 16000}}
    }
}`;

const QUOTA = `{
    "global": {"duration": 1},
    "tasks": {
        "service": {"kind": "process", "loop": -1, "run": {"exponential": 15000}, "sleep": {"exponential": 60000}},
        "neighbour": {"kind": "process", "loop": -1, "run": 1000, "sleep": 1000}
    }
}`;

const HALF = `{
    "global": {"duration": 2},
    "tasks": {
        "hog": {"kind": "process", "loop": -1, "run": 1000000},
        "half": {"kind": "process", "loop": -1, "run": {"uniform": [1000, 3000]}, "sleep": {"uniform": [1000, 3000]}}
    }
}`;

const INVERSION = `{
    "global": {"duration": 1},
    "tasks": {
        "low": {"policy": "SCHED_FIFO", "priority": 1, "loop": -1,
            "lock": "m", "run": 10000, "unlock": "m", "timer": {"ref": "unique_l", "period": 40000}},
        "middle": {"policy": "SCHED_FIFO", "priority": 10, "loop": -1, "delay": 6000,
            "run": 15000, "timer": {"ref": "unique_m", "period": 40000}},
        "high": {"policy": "SCHED_FIFO", "priority": 50, "loop": -1, "delay": 5000,
            "lock": "m", "run": 1000, "unlock": "m", "timer": {"ref": "unique_h", "period": 40000}}
    }
}`;

/** An entry; `watch` is what its headline compares: wait or share of a kind of task, or the turnaround. */
function entry(id, title, watch, sentences, attempt, changes) {
  return { id, title, watch, sentences, attempt, state: () => ({ ...fresh(), ...changes(), entry: id }) };
}

/** The gallery, in the order of the keys 1 to 9. */
export const GALLERY = [
  entry("sleeper", "Sleeper and hog", "wait sleeper",
    ["A task that computes 2 ms in every 17 ms shares one CPU with a task that never sleeps.",
     "CFS places a waking task before the hog in virtual time, so that it runs its 2 ms at once.",
     "EEVDF remembers its lag over sleep: where it had more than its share it is not eligible, and the hog runs for a tick."],
    "Point at the hatched wait in B to read the rule. Then take 7.2 for B: the wait falls from a tick, 4 ms, to 0.7 ms.",
    () => ({ json: SLEEPER, lanes: "task", from: 0, to: 120e6 })),
  entry("slices", "Slices and latency", "wait quick",
    ["Since 6.12 a task may ask for its own slice, and a shorter one brings an earlier deadline.",
     "Both sides are 6.12: in A the quick task has the default slice.",
     "B's base_slice is long, so its batch tasks hold the CPU longer and the quick task waits for them."],
    "Give quick a slice of 0.1ms under Tasks: its waits shrink, and its share of the CPU stays.",
    () => ({ json: SLICES, a: side("6.12"), b: { ...side("6.12"), knobs: { base_slice: "10ms" } }, lanes: "task", from: 0, to: 150e6 })),
  entry("threads", "Greedy threads", "share carol",
    ["Three processes compute: those of alice and bob with one thread each, that of carol with eight.",
     "CFS (A) is fair to threads, so that carol has 80 % of the CPU: Figure 2 of the study of thread fairness.",
     "In B each thread's weight is divided by the threads of its process (PFS), so that each process has a third: Figure 3."],
    "Edit the workload to 1, 2 and 2 threads (bob like carol, each with a loop of 1): CFS gives 20, 40 and 40 %, which is Figure 1.",
    () => ({ json: processes(1, 1, 8), b: { ...side("6.1"), weights: "pfs" }, lanes: "task", from: 0, to: 200e6 })),
  entry("weights", "Dynamic weights: DW-CFS", "share carol",
    ["PFS (A) holds back every process of several threads, also one that only uses the CPUs there are.",
     "DW-CFS (B) lets a process gain a little up to as many threads as there are CPUs, and holds it back slowly beyond.",
     "Here four CPUs run processes of one, four and eight threads: carol has a smaller part under PFS than under DW-CFS."],
    "Take weights by task in A: between CFS and DW-CFS the parts differ little at eight threads, and more the more there are.",
    () => ({ json: processes(1, 4, 8), cpus: 4, a: { ...side("6.1"), weights: "pfs" }, b: { ...side("6.1"), weights: "dw-cfs:beta=1.1" }, lanes: "cpu", from: 0, to: 200e6 })),
  entry("realtime", "Real-time throttling and the fair server", "share shell",
    ["A real-time task that never sleeps would starve everything else on its CPU.",
     "6.1 throttles real-time tasks after 950 ms of each second.",
     "6.12 has the fair server instead: a deadline reservation of 50 ms a second that serves fair tasks when they starve."],
    "Set A's rt_runtime to unlimited and see the shell starve.",
    () => ({ json: REALTIME, lanes: "task" })),
  entry("autogroup", "Autogroup", "wait player",
    ["Eight compilers of one session compete with a player of another.",
     "With autogroup (A) each session gets one weight, so the player has half the CPU at hand.",
     "Without it (B) the player is one task of nine."],
    "Switch autogroup on in B: the two pictures become equal.",
    () => ({ json: SESSIONS, sessions: ["build:tasks=compiler", "desktop:tasks=player"], a: side("6.12"),
             b: { ...side("6.12"), knobs: { autogroup: "0" } }, lanes: "task", from: 0, to: 200e6 })),
  entry("quota", "cpu.max and its burst", "wait service",
    ["A service may use 20 ms of every 100 ms (cpu.max), though its work comes in bursts.",
     "When the quota is used up the group is throttled until the period ends: grey, with a line.",
     "With a burst, what was left over from earlier periods may be used: edit the group under Tasks."],
    "Change the group to /svc:max=20ms/100ms,burst=20ms,tasks=service and watch the grey shrink.",
    () => ({ json: QUOTA, groups: ["/svc:max=20ms/100ms,tasks=service"], lanes: "task" })),
  entry("wakeup", "Wakeup granularity", "wait quick",
    ["Under CFS a waking task preempts only if its vruntime lies ahead by more than the wakeup granularity.",
     "A has the default; in B the granularity is large, so that wake-ups hardly ever preempt.",
     "The number of switches falls and the waits grow: that is the trade this knob makes."],
    "Move wakeup_granularity in B from end to end and watch p99 wait and switches.",
    () => ({ json: SLICES, a: side("6.1"), b: { ...side("6.1"), knobs: { wakeup_granularity: "30ms" } }, lanes: "task", from: 0, to: 150e6 })),
  entry("hackbench", "Hackbench and its three knobs", "turnaround",
    ["Groups of senders and receivers exchange messages; 80 tasks compete for 4 CPUs.",
     "Latency, min_granularity and wakeup_granularity decide how often they switch, and the turnaround follows.",
     "This is the workload of the study that tuned these knobs by particle swarms."],
    "Move B's latency from end to end: where is the turnaround shortest, and what happens to the longest wait?",
    () => ({ workload: "hackbench:groups=2,loops=50", cpus: 4, costs: "reference", a: side("6.1"),
             b: { ...side("6.1"), knobs: { wakeup_granularity: "20ms" } } })),
  entry("inversion", "Priority inversion", "wait middle",
    ["A task of low priority holds a mutex that a task of high priority wants.",
     "A task of middle priority preempts the holder and never waits, so that the most urgent task sleeps until both are done.",
     "The scheduler does not know of the mutex: with priority inheritance the holder runs at the priority of the task that waits."],
    "Add \"pi_enabled\": true to \"global\" in the editor: now the middle task waits.",
    () => ({ json: INVERSION, a: side("6.1"), b: side("6.12"), lanes: "task", from: 0, to: 120e6 })),
  entry("regression", "A regression: the end of sleeper credit", "share half",
    ["A task that runs half of the time shares a CPU with one that never sleeps, as a row of the table of reported regressions has it.",
     "CFS (6.1) places a task that slept ahead of the others by half a latency, so that it soon has the CPU back.",
     "EEVDF (6.12) gives no such credit: the task keeps its lag over its sleep, so that it has about four fifths of the CPU time that it had: the table's row, simulated."],
    "Switch the feature GENTLE_FAIR_SLEEPERS off in A, which doubles the credit; then PLACE_LAG in B, which forgets the lag.",
    () => ({ json: HALF, lanes: "task", from: 0, to: 120e6 })),
];
