"""Text that people give, such as titles and commands, inside of Markdown."""

import re

from schedlab.boundary.arguments import visible

_MARKUP = re.compile(r"([\\`*|\[\]])")


def plain(text: object) -> str:
    r"""Return text that Markdown shows as it is, on one line: no links, no HTML, no table cells.

    >>> plain("a|b *c* <d>\ne_f\x1b")
    'a\\|b \\*c\\* &lt;d> e_f\\\\x1b'
    """
    return _MARKUP.sub(r"\\\1", visible(" ".join(str(text).split())).replace("<", "&lt;"))


def code(text: object) -> str:
    """Return text as code on one line, which no backtick in it ends.

    >>> code("a`b"), code("ls")
    ('`` a`b ``', '`ls`')
    """
    line = visible(" ".join(str(text).split())) or " "
    longest = max((len(run) for run in re.findall("`+", line)), default=0)
    if not longest:
        return f"`{line}`"
    fence = "`" * (longest + 1)
    return f"{fence} {line} {fence}"


def block(text: object, language: str) -> str:
    r"""Return text as a block of code, which no line in it ends.

    >>> block("$ ls", "console")
    '```console\n$ ls\n```'
    """
    shown = visible(str(text))
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{shown}\n{fence}"
