"""The door to rich: pieces of text, tables and headings, and the paper they are printed on.

Text from outside enters only through `say`, which makes it harmless; markup, emoji codes and
highlighting are off, so that "[bold]" in a model's name stays what it is.
"""

import io
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from vllmdoctor.render.words import harmless

LEAST_WIDTH = 40
# One character each, so that a table stays straight where the encoding has no such sign.
_PLAIN: Mapping[int, int] = str.maketrans(
    "─━═│┃║╭╮╰╯┌┐└┘┏┓┗┛├┤┡┩╇╈┬┴┼╞╡╪▁▂▃▄▅▆▇✓✗▲•·▌…–—µ°×",
    "--=|||++++++++++++++++++++++++_.-=+*#+x^**|~--u x",
)


@dataclass(frozen=True, slots=True)
class Look:
    """How much to show, and the columns there are for it."""

    width: int
    verbose: bool = False


def say(text: str, style: str = "") -> Text:
    """One piece of text from anywhere, harmless and unstyled but for `style`."""
    return Text(harmless(text), style=style)


def line(*pieces: str | tuple[str, str]) -> Text:
    """Pieces of text, plain or (text, style), on one line; empty ones vanish."""
    whole = Text()
    for piece in pieces:
        text, style = (piece, "") if isinstance(piece, str) else piece
        whole.append_text(say(text, style))
    return whole


def heading(title: str, note: str = "") -> RenderableType:
    """A section's title with a rule to the right edge, and an empty line above."""
    return Padding(
        Rule(line((title, "bold"), f"  {note}" if note else ""), align="left", style="dim"), (1, 0, 0, 0)
    )


def indent(content: RenderableType, columns: int = 2) -> RenderableType:
    """`content` moved to the right."""
    return Padding(content, (0, 0, 0, columns))


def pairs(rows: Iterable[tuple[str, Text]], label_width: int = 10) -> Table:
    """Labels and their text, the text wrapping beside the label."""
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(min_width=label_width, no_wrap=True)
    table.add_column(overflow="fold")
    for label, text in rows:
        table.add_row(say(label, "dim"), text)
    return table


def grid(*columns: str, expand: bool = False) -> Table:
    """A table without lines. A column is "left", "right" (both stay whole) or "wrap" (gives way first)."""
    table = Table.grid(padding=(0, 2, 0, 0), expand=expand)
    for kind in columns:
        match kind:
            case "right":
                table.add_column(justify="right", no_wrap=True, overflow="ellipsis")
            case "wrap":
                table.add_column(overflow="fold", ratio=1 if expand else None)
            case _:
                table.add_column(no_wrap=True, overflow="ellipsis")
    return table


def row(cells: Sequence[Text], widths: Sequence[int], rights: Collection[int] = ()) -> Table:
    """One row of cells as wide as told; `rights` are the places of those set to the right.

    For tables whose rows have notes of full width between them.
    """
    table = Table.grid(padding=(0, 2, 0, 0))
    for index, width in enumerate(widths):
        table.add_column(width=width, justify="right" if index in rights else "left", overflow="fold")
    table.add_row(*cells)
    return table


def widest(texts: Iterable[Text], at_most: int) -> int:
    """The columns that the longest of `texts` takes, but no more than `at_most`."""
    return max(1, min(at_most, max((t.cell_len for t in texts), default=1)))


def boxed(content: RenderableType, color: str) -> RenderableType:
    """`content` in a box as wide as the page."""
    return Panel(content, box=box.ROUNDED, border_style=color, padding=(0, 1), expand=True)


def stack(parts: Iterable[RenderableType]) -> RenderableType:
    """Parts below each other."""
    return Group(*parts)


def paint(parts: Iterable[RenderableType], *, width: int, color: bool, encoding: str = "utf-8") -> str:
    """The parts as text of at most `width` columns (40 at least), which `encoding` can spell.

    Nothing of the environment is asked: whether there is colour is the caller's to decide.
    """
    paper = io.StringIO()
    console = Console(
        file=paper,
        width=max(LEAST_WIDTH, width),
        height=25,  # unused, but without it rich would ask the terminal and TERM
        color_system="standard" if color else None,
        force_terminal=color,
        no_color=not color,
        force_jupyter=False,
        force_interactive=False,
        legacy_windows=False,
        markup=False,
        emoji=False,
        highlight=False,
        # rich's own style for code puts a black bar on a light terminal
        theme=Theme({"markdown.code": "bold cyan", "markdown.code_block": "cyan"}),
        _environ={},
    )
    for part in parts:
        console.print(part)
    text = "".join(f"{each.rstrip()}\n" for each in paper.getvalue().split("\n")).rstrip("\n") + "\n"
    return spellable(text, encoding)


def spellable(text: str, encoding: str) -> str:
    """`text` as it is where `encoding` can spell it, else with plain signs and question marks."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_PLAIN).encode(encoding, "replace").decode(encoding)
    except LookupError:
        return text.translate(_PLAIN).encode("ascii", "replace").decode("ascii")
    return text
