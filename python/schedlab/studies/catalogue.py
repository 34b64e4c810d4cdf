"""The studies there are."""

from schedlab.boundary.errors import InputError
from schedlab.studies import policies
from schedlab.studies.cfs_parameters import cfs_parameters
from schedlab.studies.demo import demo_study
from schedlab.studies.rt_runtime import rt_runtime
from schedlab.studies.scheduler_tuning import scheduler_tuning_study
from schedlab.studies.study import Study
from schedlab.studies.thread_fairness import thread_fairness

STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        scheduler_tuning_study.STUDY,
        policies.STUDY,
        thread_fairness.STUDY,
        cfs_parameters.STUDY,
        rt_runtime.STUDY,
        demo_study.STUDY,
    )
}
"""By name."""


def study(name: str) -> Study:
    """Return the study of this name.

    Raises:
        InputError: no study has this name.

    >>> study("thread_fairness").name
    'thread_fairness'
    """
    if name not in STUDIES:
        raise InputError(f"no study is called '{name}'; known: {', '.join(STUDIES)}")
    return STUDIES[name]
