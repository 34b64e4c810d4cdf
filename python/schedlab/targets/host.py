"""The running kernel, through the native runner."""

from schedlab.targets.facts import Facts, facts

__all__ = ["Facts", "facts"]
