"""The studies there are."""

from schedlab.errors import InputError
from schedlab.studies import scheduler_tuning_study, thread_fairness
from schedlab.studies.study import Study

STUDIES: dict[str, Study] = {
    study.name: study for study in (scheduler_tuning_study.STUDY, thread_fairness.STUDY)
}
"""By name."""


def study(name: str) -> Study:
    """Return the study of this name.

    Raises:
        InputError: there is none.

    >>> study("thread_fairness").name
    'thread_fairness'
    """
    if name not in STUDIES:
        raise InputError(f"no study is called '{name}'; known: {', '.join(STUDIES)}")
    return STUDIES[name]
