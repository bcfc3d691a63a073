"""The page about somebody's rules and dashboards: each faulty expression, why, and what to write."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

from vllmdoctor.render.pages import SEVERITY_STYLES
from vllmdoctor.render.words import plural

Row = tuple[str, str, int, str, str]
Block = tuple[str, str, str, Sequence[Row]]


def expressions(
    head: str,
    blocks: Sequence[Block],
    *,
    width: int = 100,
    color: bool = False,
    encoding: str = "utf-8",
) -> str:
    """The findings of a file.

    A block is (place, the expression, the lines of the corrected one or "", rows), a row (severity's name,
    slug, line, piece, what).
    """
    from vllmdoctor.render.sheet import heading, indent, paint, say

    faults = sum(len(rows) for *_, rows in blocks)
    note = f"{plural(faults, 'mistake')} in {plural(len(blocks), 'expression')}" if blocks else ""
    parts: list[RenderableType] = [heading("EXPRESSIONS", note), indent(say(head, "dim"))]
    for block in blocks:
        parts += [say(""), *_block(block)]
    if not blocks:
        parts += [say(""), indent(say("nothing to say against them", "green"))]
    return paint(parts, width=width, color=color, encoding=encoding).lstrip("\n")


def _block(block: Block) -> list["RenderableType"]:
    from vllmdoctor.render.sheet import grid, indent, line, say

    place, text, corrected, rows = block
    table = grid("left", "wrap")
    for severity, slug, _, piece, what in rows:
        shown = "" if " ".join(piece.split()) == " ".join(text.split()) else piece
        why = line((f"{shown}: " if shown else "", "bold"), what, (f" [{slug}]", "dim"))
        table.add_row(say(severity, SEVERITY_STYLES.get(severity, "")), why)
    table.add_row(say("as it is", "dim"), say(" ".join(text.split()), "dim"))
    if corrected:
        for at, each in enumerate(corrected.split("\n")):
            table.add_row(say("" if at else "write"), say(each, "green"))
    elif any(slug not in ("missing-for", "unreadable") for _, slug, *_ in rows):
        table.add_row(say("write"), say("nothing can stand in its place: see above", "dim"))
    return [say(f"  {place}", "bold"), indent(table, 4)]
