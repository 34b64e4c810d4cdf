"""The libraries of the package's extras, loaded when they are first used.

Only figures, Optuna's samplers and data frames need them, so the package installs without them.
Where one is missing, the error names the extra to install.
"""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from schedlab.boundary.errors import InputError

EXTRAS = {
    "charts": ("altair", "vl_convert"),
    "optuna": ("optuna", "cmaes"),
    "frames": ("pandas",),
    "polars": ("polars",),
    "dask": ("distributed",),
}
"""The modules of each extra of the package."""

_NEEDED_BY = {
    "charts": "figures need",
    "optuna": "Optuna's searches need",
    "frames": "data frames of pandas need",
    "polars": "data frames of polars need",
    "dask": "workers of a Dask scheduler need",
}


def installed(extra: str) -> bool:
    """Return whether every module of an extra can be loaded.

    >>> installed("charts")
    True
    """
    return all(find_spec(module) is not None for module in EXTRAS[extra])


def require(extra: str) -> None:
    """Refuse in a line where an extra is not installed.

    Raises:
        InputError: it is not; the message says how to install it.
    """
    for module in EXTRAS[extra]:
        if find_spec(module) is None:
            raise _missing(module)


def load(module: str) -> ModuleType:
    """Return a module of an extra.

    Args:
        module: its name, with those of its packages.

    Raises:
        InputError: it is not installed; the message says how to install it.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise
        raise _missing(error.name) from None


def _missing(module: str) -> InputError:
    extra = next(extra for extra, modules in EXTRAS.items() if module in modules)
    return InputError(f"{_NEEDED_BY[extra]} {module}: pip install 'schedlab[{extra}]'")


class Lazy:
    """Stands for a module of an extra, and loads it when a name of it is used.

    >>> Lazy("altair").Chart.__name__
    'Chart'
    """

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(load(self._module), name)
