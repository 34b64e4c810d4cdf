"""Experiments that run until their questions are settled.

Arms run in randomised, interleaved blocks as in `schedlab.experiment.blocks`; after the numbers of
blocks that the protocol sets, the open questions are judged together
(`schedlab.experiment.group_sequential`). An arm goes as soon as no open question is about it, so a
clear loser costs a few runs and not the whole budget.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from schedlab.boundary.errors import RunError
from schedlab.experiment import blocks, stats
from schedlab.experiment.drift import Drift, drift
from schedlab.experiment.group_sequential import Judged, Pairs, Protocol, judge_all
from schedlab.model.direction import Better

Values = Mapping[str, float]
"""What a run came to: numbers by metric."""

Arm = blocks.Arm[Values]
"""Runs an arm once, see `schedlab.experiment.blocks.Arm`."""

AA_BLOCKS = 12
"""Blocks of a check of an arm against itself."""

_AA_CONFIDENCE = 0.99


@dataclass(frozen=True, slots=True)
class Question:
    """Does a treatment change a metric?

    Attributes:
        baseline: the arm compared with.
        treatment: the arm compared.
        metric: what is compared.
        better: whether a lower or a higher metric is better.
        decisive: whether the experiment continues until this is answered; the others are answered
            from the runs that this takes.
    """

    baseline: str
    treatment: str
    metric: str
    better: Better = "lower"
    decisive: bool = True

    @property
    def name(self) -> str:
        """The question in a line."""
        return f"{self.metric}: {self.treatment} against {self.baseline}"


@dataclass(frozen=True, slots=True)
class LimitedQuestion(Question):
    """Is a treatment no worse than a limit?

    Attributes:
        limit: the worst ratio that is allowed, see `schedlab.experiment.stats.judge`.
    """

    limit: float = 1.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What a question came to.

    Attributes:
        question: the question.
        judged: the ratio with its interval, and the verdict.
        blocks: after how many blocks.
        baseline: the baseline's geometric mean over them (`stats.centre`); None without any.
        treatment: the treatment's.
        change: of the metric itself, treatment / baseline - 1; None where there is no ratio.
    """

    question: Question
    judged: Judged
    blocks: int
    baseline: float | None = None
    treatment: float | None = None
    change: float | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """Where an experiment stands, told after each run.

    Attributes:
        done: runs executed.
        most: runs there will be, projected from the scatter so far.
        arm: the arm that ran last.
        undecided: decisive questions without an answer.
    """

    done: int
    most: int
    arm: str
    undecided: int


@dataclass(slots=True)
class Settled:
    """What an experiment came to.

    Attributes:
        values: by arm, what each of its runs came to, by block.
        answers: in the order of the questions.
        failures: arms that could not be run on, and why.
        blocks: complete blocks.
        complete: whether it came to its end.
        order: arm and block of each run, as they were run.
    """

    values: dict[str, dict[int, Values]]
    answers: list[Answer] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    blocks: int = 0
    complete: bool = False
    order: list[tuple[str, int]] = field(default_factory=list)

    def of(self, arm: str, metric: str) -> list[float]:
        """Return an arm's values of a metric, one a block."""
        return [values[metric] for values in self.values[arm].values() if metric in values]

    def drift(self, metric: str) -> Drift | None:
        """Look for a trend of a metric over the time of the experiment."""
        runs: dict[str, list[tuple[float, float]]] = {arm: [] for arm in self.values}
        for time, (arm, block) in enumerate(self.order):
            value = self.values[arm].get(block, {}).get(metric)
            if value is not None:
                runs[arm].append((float(time), value))
        return drift({arm: values for arm, values in runs.items() if values})


class UnanswerableError(RunError):
    """Every question is about an arm that failed; ``settled`` has what was known by then."""

    def __init__(self, settled: Settled, why: str) -> None:
        super().__init__(why)
        self.settled = settled


class Unsettled(KeyboardInterrupt):
    """Ctrl-C during an experiment; ``settled`` has what was known by then."""

    def __init__(self, settled: Settled) -> None:
        plural = "" if settled.blocks == 1 else "s"
        super().__init__(f"interrupted after {settled.blocks} complete block{plural}")
        self.settled = settled


def settle(
    arms: Mapping[str, Arm],
    questions: Sequence[Question],
    protocol: Protocol,
    *,
    seed: int = 0,
    progress: Callable[[Progress], None] | None = None,
) -> Settled:
    """Run arms in blocks until every decisive question has an answer, or the budget is spent.

    An arm that raises `RunError` is left out from then on, and its questions stay open. Where that
    leaves nothing to do, what was judged before stands.

    Args:
        arms: by name.
        questions: about them.
        protocol: the looks, the band and the error rate.
        seed: of the orders of the blocks.
        progress: told after each run.

    Raises:
        ValueError: no arm, or a question about an arm that is not there.
        UnanswerableError: an arm of each question failed before any was judged; with what is known.
        Unsettled: on KeyboardInterrupt, with what is known.

    >>> settled = settle(
    ...     {"old": lambda block, place: {"time": 2.0}, "new": lambda block, place: {"time": 1.0}},
    ...     [Question("old", "new", "time")],
    ...     Protocol(),
    ... )
    >>> [(str(answer.judged.verdict), answer.blocks) for answer in settled.answers]
    [('better', 12)]
    """
    if not arms:
        raise ValueError("there are no arms: at least one is needed")
    for question in questions:
        for arm in (question.baseline, question.treatment):
            if arm not in arms:
                raise ValueError(f"there is no arm {arm!r}: the arms are {', '.join(arms)}")
    course = _Course(arms, questions, protocol, progress)
    try:
        for run in blocks.in_blocks(arms, course.arms_of, seed=seed, failed=course.fail):
            course.add(run)
    except KeyboardInterrupt as interrupt:
        course.judge_now()
        raise Unsettled(course.settled) from interrupt
    course.settled.complete = True
    return course.settled


def check_against_itself(
    arms: tuple[Arm, Arm],
    metrics: Sequence[str],
    *,
    blocks: int = AA_BLOCKS,
    band: float = 0.01,
    seed: int = 0,
    progress: Callable[[Progress], None] | None = None,
) -> dict[str, Judged]:
    """Compare an arm with itself (an A/A check); it is given under two names.

    Whatever difference it finds comes from the way things are measured: with a confidence of 99 %
    it finds one by chance in one check of a hundred, whatever the number of metrics.

    Returns:
        What each metric came to, in the order given.

    Raises:
        Unsettled: on KeyboardInterrupt.
        RunError: the arm failed.
    """
    again = "the same again"
    settled = settle(
        {"once": arms[0], again: arms[1]},
        [Question("once", again, metric) for metric in metrics],
        Protocol((blocks,), band, _AA_CONFIDENCE),
        seed=seed,
        progress=progress,
    )
    return {answer.question.metric: answer.judged for answer in settled.answers}


class _Course:
    """An experiment on its way."""

    def __init__(
        self,
        arms: Mapping[str, Arm],
        questions: Sequence[Question],
        protocol: Protocol,
        progress: Callable[[Progress], None] | None,
    ) -> None:
        self.arms = arms
        self.questions = {question.name: question for question in questions}
        self.protocol = protocol
        self.progress = progress
        self.settled = Settled({arm: {} for arm in arms})
        self.answered: dict[str, Answer] = {}

    def arms_of(self, block: int) -> list[str]:
        """Return the arms of the coming block, after a look at the data if it is time; or none."""
        if block > 0:
            if not self.active():
                if not self.answered:
                    why = next(reversed(self.settled.failures.values()))
                    raise UnanswerableError(self.settled, why)
                return []
            self.settled.blocks = block
            if block in self.protocol.looks:
                self.look(self.protocol.alphas[self.protocol.looks.index(block)])
            if block >= self.protocol.budget or not self.undecided():
                return []
        active = self.active()
        return [arm for arm in self.arms if arm in active]

    def fail(self, arm: str, _block: int, error: Exception) -> bool:
        """Leave an arm out that cannot be run; other errors end the experiment."""
        if not isinstance(error, RunError):
            return False
        self.settled.failures[arm] = str(error)
        return True

    def add(self, run: blocks.Run[Values]) -> None:
        """Keep what a run came to, and tell of progress."""
        self.settled.values[run.arm][run.block] = run.outcome
        self.settled.order.append((run.arm, run.block))
        if self.progress is not None:
            done = len(self.settled.order)
            left = self.rest(run.block)
            self.progress(Progress(done, done + left, run.arm, len(self.undecided())))

    def rest(self, block: int) -> int:
        """Return the runs that are left to do, as far as the scatter so far tells."""
        undecided, active = self.undecided(), self.active()
        asked = [(question.baseline, question.treatment) for question in undecided]
        ends = {
            pair: self.protocol.projected_blocks(self.pairs(question), block, len(asked))
            for pair, question in zip(asked, undecided, strict=True)
        }
        in_block = sum(1 for arm in active if block not in self.settled.values[arm])
        later = 0
        for arm in active:
            ending = [end for pair, end in ends.items() if arm in pair]
            later += max(ending, default=self.protocol.budget) - block - 1
        return in_block + later

    def undecided(self) -> list[Question]:
        """Return the decisive questions that can still be answered."""
        failed = self.settled.failures
        return [
            question
            for name, question in self.questions.items()
            if question.decisive
            and not (name in self.answered and self.answered[name].judged.decided)
            and question.baseline not in failed
            and question.treatment not in failed
        ]

    def active(self) -> set[str]:
        """Return the arms that open questions are about; all of them where there are none."""
        failed = self.settled.failures
        if not any(question.decisive for question in self.questions.values()):
            return set(self.arms) - set(failed)
        return {
            arm for question in self.undecided() for arm in (question.baseline, question.treatment)
        }

    def look(self, alpha: float) -> None:
        """Judge what is open."""
        pending = {
            name: self.pairs(question)
            for name, question in self.questions.items()
            if not (name in self.answered and self.answered[name].judged.decided)
        }
        judged = judge_all(
            pending, alpha, band=self.protocol.band, resamples=self.protocol.resamples
        )
        for name, one in judged.items():
            self.answered[name] = _answer(self.questions[name], one, pending[name])
        self.settled.answers = [self.answered[name] for name in self.questions]

    def judge_now(self) -> None:
        """Show where open questions stand, without a verdict: no look was due."""
        if not self.answered:
            self.look(self.protocol.alphas[0])
            for name, answer in self.answered.items():
                judged = Judged(
                    answer.judged.ratio,
                    stats.Verdict.INCONCLUSIVE,
                    answer.judged.band,
                    answer.judged.why,
                )
                self.answered[name] = replace(answer, judged=judged)
            self.settled.answers = [self.answered[name] for name in self.questions]

    def pairs(self, question: Question) -> Pairs:
        base, treated = (
            self.settled.values[arm] for arm in (question.baseline, question.treatment)
        )
        metric = question.metric
        blocks = [
            block
            for block in base
            if metric in base[block] and block in treated and metric in treated[block]
        ]
        return Pairs(
            [base[block][metric] for block in blocks],
            [treated[block][metric] for block in blocks],
            question.better,
            question.limit if isinstance(question, LimitedQuestion) else None,
        )


def _answer(question: Question, judged: Judged, pairs: Pairs) -> Answer:
    """Return an answer with the means whose ratio it judges."""
    means = [_centre(values) for values in (pairs.baseline, pairs.treatment)]
    change = None if judged.ratio is None else judged.ratio.value - 1
    return Answer(question, judged, len(pairs.baseline), means[0], means[1], change)


def _centre(values: Sequence[float]) -> float | None:
    return stats.centre(values) if values and np.isfinite(values).all() else None
