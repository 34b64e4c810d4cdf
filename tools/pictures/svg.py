"""SVG with one palette for light and dark screens and text that stays readable at 700 px."""

import html
from collections.abc import Sequence

WIDTH = 860
"""Of every picture, in its own units; a page shows it at 700 px or more."""

# Okabe and Ito's colours, lightened or darkened until each has a contrast of 3:1 on its ground.
_LIGHT = {
    "ground": "#ffffff",
    "ink": "#1f2328",
    "soft": "#59636e",
    "line": "#d1d9e0",
    "panel": "#f6f8fa",
    "blue": "#0b6fb3",
    "orange": "#b86200",
    "green": "#00805c",
    "purple": "#9a4f80",
    "red": "#c93c20",
}
_DARK = {
    "ground": "#0d1117",
    "ink": "#e6edf3",
    "soft": "#9198a1",
    "line": "#3d444d",
    "panel": "#151b23",
    "blue": "#4aa8e8",
    "orange": "#e69f00",
    "green": "#2fb58c",
    "purple": "#d38ab5",
    "red": "#ff7b5c",
}
COLOURS = tuple(_LIGHT)


def _style() -> str:
    def rules(palette: dict[str, str]) -> str:
        return "".join(
            f".{name}{{fill:{colour}}}.{name}-line{{stroke:{colour};fill:none}}"
            for name, colour in palette.items()
        )

    return (
        "text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}"
        ".mono{font-family:ui-monospace,Menlo,Consolas,monospace}"
        f"{rules(_LIGHT)}@media(prefers-color-scheme:dark){{{rules(_DARK)}}}"
    )


class Drawing:
    """A picture that grows by shapes.

    Args:
        height: in the picture's units; its width is `WIDTH`.
        title: alternative text of one sentence.
        description: its alternative text.
    """

    def __init__(self, height: int, title: str, description: str) -> None:
        self.title, self.description = title, description
        self._height = height
        self._parts: list[str] = []

    def rect(
        self, x: float, y: float, width: float, height: float, colour: str, *, opacity: float = 1
    ) -> None:
        """Add a filled rectangle, at least a third of a unit wide."""
        faint = "" if opacity == 1 else f' opacity="{opacity:g}"'
        self._parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.3):.1f}" height="{height:.1f}" '
            f'class="{colour}"{faint}/>'
        )

    def box(self, x: float, y: float, width: float, height: float, lines: Sequence[str]) -> None:
        """Add a framed box with centred lines of text, the first of them bold."""
        self._parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="6" '
            'class="panel"/>'
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="6" '
            'class="soft-line"/>'
        )
        top = y + height / 2 - 9 * (len(lines) - 1) + 5
        for place, text in enumerate(lines):
            self.text(x + width / 2, top + 18 * place, text, anchor="middle", bold=place == 0)

    def line(
        self,
        x1: float,
        y1: float,
        x2: float,
        y2: float,
        colour: str = "line",
        *,
        width: float = 1,
        dash: str = "",
    ) -> None:
        """Add a straight line."""
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self._parts.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
            f'class="{colour}-line" stroke-width="{width:g}"{dashed}/>'
        )

    def arrow(self, x1: float, y1: float, x2: float, y2: float) -> None:
        """Add a line that ends in an arrow head; horizontal or vertical."""
        self.line(x1, y1, x2, y2, "soft", width=1.5)
        if x1 == x2:
            back = -7 if y2 > y1 else 7
            points = f"{x2:.1f},{y2:.1f} {x2 - 4:.1f},{y2 + back:.1f} {x2 + 4:.1f},{y2 + back:.1f}"
        else:
            back = -7 if x2 > x1 else 7
            points = f"{x2:.1f},{y2:.1f} {x2 + back:.1f},{y2 - 4:.1f} {x2 + back:.1f},{y2 + 4:.1f}"
        self._parts.append(f'<polygon points="{points}" class="soft"/>')

    def curve(
        self, points: Sequence[tuple[float, float]], colour: str, *, width: float = 2
    ) -> None:
        """Add a line through points."""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self._parts.append(
            f'<polyline points="{path}" class="{colour}-line" stroke-width="{width:g}" '
            'stroke-linejoin="round"/>'
        )

    def circle(
        self, x: float, y: float, radius: float, colour: str, *, hollow: bool = False
    ) -> None:
        """Add a dot, or a ring."""
        kind = f'class="{colour}-line" stroke-width="2"' if hollow else f'class="{colour}"'
        self._parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" {kind}/>')

    def text(
        self,
        x: float,
        y: float,
        text: str,
        colour: str = "ink",
        *,
        size: float = 14,
        anchor: str = "start",
        bold: bool = False,
        mono: bool = False,
    ) -> None:
        """Add a line of text, 14 units high unless told otherwise: 11 px on a page of 700 px."""
        weight = ' font-weight="600"' if bold else ""
        family = " mono" if mono else ""
        self._parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" text-anchor="{anchor}" '
            f'class="{colour}{family}"{weight}>{html.escape(text)}</text>'
        )

    def svg(self) -> str:
        """Return the file."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self._height}" '
            f'width="{WIDTH}" height="{self._height}" role="img" '
            'aria-labelledby="title description">\n'
            f'<title id="title">{html.escape(self.title)}</title>\n'
            f'<desc id="description">{html.escape(self.description)}</desc>\n'
            f"<style>{_style()}</style>\n"
            f'<rect width="{WIDTH}" height="{self._height}" rx="8" class="ground"/>\n'
        )
        return head + "\n".join(self._parts) + "\n</svg>\n"
