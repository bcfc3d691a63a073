"""The report for a person at a terminal. rich is loaded when it is called, not before."""

from vllmdoctor.model import Report


def render(
    report: Report,
    *,
    width: int = 100,
    color: bool = False,
    verbose: bool = False,
    encoding: str = "utf-8",
) -> str:
    """`report` as text of at most `width` columns (40 at least).

    In the order of a person's questions: what is it, is it slow, why, why not something else,
    what to do, what was not seen, what to type next. `verbose` adds every engine, comparison and setting.
    """
    from vllmdoctor.render.paper import pages
    from vllmdoctor.render.sheet import LEAST_WIDTH, Look, paint

    look = Look(max(LEAST_WIDTH, width), verbose)
    return paint(pages(report, look), width=look.width, color=color, encoding=encoding)
