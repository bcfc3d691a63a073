"""The findings of a file as a page's rows and as JSON."""

import json

from vllmdoctor.promlint.linting import Linted
from vllmdoctor.promql import in_lines
from vllmdoctor.versions import releases

_MARGIN = 16  # columns: the indent and the severities, and one to spare
SCHEMA = "vllmdoctor/alerts-lint/1"
Row = tuple[str, str, int, str, str]
Block = tuple[str, str, str, tuple[Row, ...]]


def head(linted: Linted) -> str:
    """What was checked against what."""
    known = releases()
    told = f"vLLM {linted.release}" if linted.release else f"vLLM {known[0]} to {known[-1]}"
    many = "expression" if linted.expressions == 1 else "expressions"
    return f"{linted.origin}: {linted.expressions} {many}, for {told}, one scrape in {linted.scrape_s:g} s"


def blocks(linted: Linted, width: int = 100) -> list[Block]:
    """Place, expression, the corrected one, and (severity's name, slug, line, piece, what) of each.

    The corrected expression is in lines for a page of `width` columns.
    """
    return [
        (
            f"line {each.line}, {each.place}",
            each.expression,
            in_lines(each.corrected, width - _MARGIN),
            tuple((f.severity.name.lower(), f.slug, f.line, f.piece, f.what) for f in each.findings),
        )
        for each in linted.faulty
    ]


def as_json(linted: Linted) -> str:
    """All of it, for programs; the text is the same for the same file."""
    document = {
        "schema": SCHEMA,
        "file": linted.origin,
        "version": str(linted.release) if linted.release else None,
        "scrape_interval_s": linted.scrape_s,
        "expressions": linted.expressions,
        "findings": [
            {
                "severity": f.severity.name.lower(),
                "slug": f.slug,
                "line": f.line,
                "place": each.place,
                "piece": f.piece,
                "what": f.what,
                "expression": each.expression,
                "corrected": each.corrected or None,
            }
            for each in linted.faulty
            for f in each.findings
        ],
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
