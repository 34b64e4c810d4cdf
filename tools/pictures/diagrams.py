"""Diagrams: the parts of schedlab, and how a decision is replayed."""

from pictures.svg import WIDTH, Drawing

_MIDDLE = WIDTH / 2


def architecture() -> Drawing:
    """One description, two executions, one outcome."""
    picture = Drawing(
        430,
        "One description, two executions, one outcome",
        "A workload, a machine and a scheduler describe a run. The simulator and a real kernel "
        "execute the same program. Both give an outcome with the same metrics, which experiments "
        "compare. A recording of the real kernel drives the same rules in replay.",
    )
    for place, lines in enumerate(
        (
            ("Workload", "tasks and their steps"),
            ("Machine", "CPUs, costs"),
            ("Scheduler", "release, knobs, rules"),
        )
    ):
        picture.box(30 + place * 275, 16, 250, 56, lines)
    picture.line(155, 72, 155, 96, "soft", width=1.5)
    picture.line(430, 72, 430, 96, "soft", width=1.5)
    picture.line(705, 72, 705, 96, "soft", width=1.5)
    picture.line(155, 96, 705, 96, "soft", width=1.5)
    picture.arrow(215, 96, 215, 122)
    picture.arrow(645, 96, 645, 122)
    picture.box(50, 122, 330, 74, ("Simulated", "virtual time (crates/sim)", "rules: crates/sched"))
    picture.box(
        480, 122, 330, 74, ("For real", "this kernel or a guest", "processes: crates/native")
    )
    picture.arrow(480, 172, 380, 172)
    picture.text(_MIDDLE, 164, "replay", "soft", anchor="middle", size=15)
    picture.text(_MIDDLE, 190, "recording", "soft", anchor="middle", size=15)
    picture.arrow(215, 196, 215, 240)
    picture.arrow(645, 196, 645, 240)
    picture.box(50, 240, 760, 50, ("Outcome", "the same metrics from both"))
    picture.arrow(_MIDDLE, 290, _MIDDLE, 322)
    picture.box(
        50,
        322,
        760,
        50,
        ("Experiment", "interleaved blocks, statistics, a verdict with an interval"),
    )
    picture.arrow(_MIDDLE, 372, _MIDDLE, 398)
    picture.text(
        _MIDDLE, 416, "tables, figures, reports, exported settings", anchor="middle", size=15
    )
    return picture


def replay() -> Drawing:
    """A recorded decision, the rules' answer, and which of them stands."""
    picture = Drawing(
        330,
        "How a decision is replayed",
        "A recorded wake-up reaches the rules with the state that the replay has built. The rules "
        "say whether the waking task preempts and by what margin. The answer is compared with what "
        "the kernel did next. The kernel's choice then stands, so that one difference cannot cause "
        "the next.",
    )
    picture.box(
        24, 40, 236, 84, ("Recording", "sched_waking, k_place,", "need_resched, sched_switch")
    )
    picture.box(318, 40, 224, 84, ("State", "queues, vruntime, lag,", "deadlines, averages"))
    picture.box(
        600, 40, 236, 84, ("Rules (crates/sched)", "the functions that", "the simulator runs")
    )
    picture.arrow(260, 82, 318, 82)
    picture.arrow(542, 82, 600, 82)
    picture.text(289, 30, "clocks, wake-ups", "soft", anchor="middle")
    picture.text(571, 30, "what would you do?", "soft", anchor="middle")
    picture.arrow(718, 124, 718, 178)
    picture.text(706, 156, "answer, reason, margin", "soft", anchor="end")
    picture.box(600, 178, 236, 62, ("Compare", "equal, differing or open"))
    picture.line(142, 124, 142, 209, "soft", width=1.5)
    picture.arrow(142, 209, 600, 209)
    picture.text(280, 200, "what the kernel did", "soft", anchor="middle")
    picture.line(718, 240, 718, 286, "soft", width=1.5)
    picture.line(718, 286, 430, 286, "soft", width=1.5)
    picture.arrow(430, 286, 430, 124)
    picture.text(574, 308, "the kernel's choice stands", "soft", anchor="middle")
    return picture
