"""Groups of options in the help of commands that have many."""

import inspect
from collections.abc import Callable
from copy import copy
from typing import Annotated, Any, TypeVar, get_args, get_origin

from typer.models import OptionInfo

Command = TypeVar("Command", bound=Callable[..., Any])

MANY = 10
"""Options from which on they stand in groups."""

PANELS = {
    "What is run": "--command --metric --better --metrics --keep --seed --timeout",
    "Settings": "--set --policy --slice --nice",
    "Search": "--knobs --by --scale --executions --repeats --seeds --screen/--no-screen",
    "Where it runs": "--on --cpus --clock --workers",
    "What is simulated": "--kernel --hz --topology --speed --costs --background --weights --rule "
    "--group --session",
    "Comparison": "--later --load --boots --against --build --fail-if --verify --points --blocks "
    "--band --check/--no-check",
    "Runs kept": "--store --afresh",
    "Output": "--export --uncertified --trace --reasons --all --json",
}
"""By the group's title, the options in it; the others stand under *Options*."""


def grouped(command: Command) -> Command:
    """Put the options of a command into groups, where it has many; return the command."""
    signature = inspect.signature(command)
    found = [one for one in signature.parameters.values() if _option(one)]
    if len(found) < MANY:
        return command
    title_of = {name: title for title, names in PANELS.items() for name in names.split()}
    hints = dict(command.__annotations__)
    for parameter in found:
        option = _option(parameter)
        assert option is not None
        # In an annotation Typer has the first name for the default.
        names = (option.default, *(option.param_decls or ()))
        title = next((title_of[one] for one in names if one in title_of), None)
        if title is not None and option.rich_help_panel is None:
            placed = copy(option)  # commands share options
            placed.rich_help_panel = title
            kind, *rest = get_args(parameter.annotation)
            others = [placed if one is option else one for one in rest]
            hints[parameter.name] = Annotated[(kind, *others)]
    command.__annotations__ = hints
    placed_in = [
        one.replace(annotation=hints.get(one.name, one.annotation))
        for one in signature.parameters.values()
    ]
    vars(command)["__signature__"] = signature.replace(parameters=placed_in)
    return command


def _option(parameter: inspect.Parameter) -> OptionInfo | None:
    """Return what Typer knows of a parameter, None if it is no option."""
    if get_origin(parameter.annotation) is not Annotated:
        return None
    found = [one for one in get_args(parameter.annotation) if isinstance(one, OptionInfo)]
    return found[0] if found else None
