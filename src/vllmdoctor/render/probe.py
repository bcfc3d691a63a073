"""A probe's result as text and as JSON (schema "vllmdoctor/probe/1": the fields of ProbeReport, SI units)."""

import dataclasses
import json
import math

from rich.console import RenderableType
from rich.text import Text

from vllmdoctor.model_probe import ProbeReport, Spread
from vllmdoctor.render.machine import plain
from vllmdoctor.render.quantity import duration, number, quantity
from vllmdoctor.render.sheet import grid, heading, indent, line, paint, pairs, say
from vllmdoctor.render.words import plural

SCHEMA = "vllmdoctor/probe/1"
_LISTED = 20  # so many wrong answers are shown, the others counted
_TEXT = 60  # so many characters of an answer


def machine(report: ProbeReport) -> str:
    """`report` as indented JSON; NaN is null."""
    told = {f.name: plain(getattr(report, f.name)) for f in dataclasses.fields(report)}
    return json.dumps({"schema": SCHEMA, **told}, indent=1, allow_nan=False) + "\n"


def text(report: ProbeReport, *, width: int = 100, color: bool = False, encoding: str = "utf-8") -> str:
    """`report` for people."""
    parts: list[RenderableType] = [heading("PROBE", report.target), indent(pairs(_rows(report)))]
    parts += [Text(), indent(_speed(report))]
    parts += _wrong(report) + _failures(report) + _unseen(report)
    return paint(parts, width=width, color=color, encoding=encoding).lstrip("\n")


def _rows(report: ProbeReport) -> list[tuple[str, Text]]:
    version = f"vLLM {report.version}" if report.version else "version not known"
    rows = [("model", line(report.model or "-", f", {version}"))]
    how = f"up to {number(report.concurrency)} at once"
    if report.loop == "open":
        how = f"{number(report.rate)} per second on average, {how}"
    warm = f", after {number(report.warmup)} to warm up" if report.warmup else ""
    sent = report.planned - report.cut
    rows.append(("sent", line(plural(sent, "request"), f", {how}{warm}")))
    if report.cut:
        rows.append(("not ended", line((f"{number(report.cut)} of {number(report.planned)}", "yellow"),
                                       f": {report.ended}")))  # fmt: skip
    style = "bold" if not report.failed else "bold red"
    took = f", in {duration(report.seconds)}" if math.isfinite(report.seconds) else ""
    rows.append(("answered", line((_of(report.answered, sent), style), took)))
    if report.judged:
        style = "bold green" if report.correct == report.judged else "bold red"
        rows.append(("correct", line((_of(report.correct, report.judged), style))))
    else:
        rows.append(("correct", say("not measured", "dim")))
    if report.refused:
        rows.append(("refused", line(f"{plural(report.refused, 'time')} with 429, waited and asked again")))
    if report.late:
        told = f"{number(report.late)} sent late: all {number(report.concurrency)} slots were busy"
        rows.append(("late", line((told, "yellow"), "; the rate was not reached, allow more at once")))
    rows.append(("output", line(_output(report))))
    return rows


def _of(part: int, whole: int) -> str:
    share = f" ({quantity(math.floor(1000 * part / whole) / 1000, 'ratio')})" if whole else ""
    return f"{number(part)} of {number(whole)}{share}"


def _output(report: ProbeReport) -> str:
    if math.isnan(report.output_rate):
        return "not measured"
    prompts = f"; {quantity(report.prompt_tokens, 'tokens')} of prompts"
    return (
        f"{quantity(report.output_rate, 'tokens/s')} ({quantity(report.output_tokens, 'tokens')}"
        f"{'' if math.isnan(report.prompt_tokens) else prompts})"
    )


def _speed(report: ProbeReport) -> RenderableType:
    table = grid("left", "right", "right", "right", "right", "right")
    table.add_row("", *(say(head, "dim") for head in ("mean", "p50", "p95", "p99", "samples")))
    for spread in report.spreads:
        table.add_row(say(spread.title), *_cells(spread), say(number(spread.count), "dim"))
    return table


def _cells(spread: Spread) -> list[Text]:
    values = (spread.mean, spread.p50, spread.p95, spread.p99)
    if not spread.count:
        return [say("not measured", "dim"), *[Text("")] * 3]
    return [say("-", "dim") if math.isnan(v) else say(quantity(v, spread.unit)) for v in values]


def _wrong(report: ProbeReport) -> list[RenderableType]:
    if not report.wrong:
        return []
    table = grid("left", "wrap", "wrap")
    table.add_row(*(say(head, "dim") for head in ("request", "expected", "got")))
    for wrong in report.wrong[:_LISTED]:
        table.add_row(
            say(_short(wrong.id, 20)), say(_short(wrong.expected)), say(_short(wrong.got) or "(nothing)")
        )
    parts = [heading("WRONG ANSWERS", number(len(report.wrong))), indent(table)]
    if len(report.wrong) > _LISTED:
        more = plural(len(report.wrong) - _LISTED, "more")[: -1 if len(report.wrong) - _LISTED != 1 else None]
        parts.append(indent(say(f"... {more}: -f json lists all", "dim")))
    return parts


def _failures(report: ProbeReport) -> list[RenderableType]:
    if not report.failures:
        return []
    table = grid("right", "left", "wrap")
    for failed in report.failures:
        table.add_row(
            say(number(failed.count), "bold red"), say(failed.failure.value), say(failed.example, "dim")
        )
    return [heading("FAILED", f"{number(report.failed)}, with the first of each kind"), indent(table)]


def _unseen(report: ProbeReport) -> list[RenderableType]:
    gaps = [(gap.what, gap.why, gap.hint) for gap in report.gaps]
    few = [s for s in report.spreads if s.count and (math.isnan(s.p95) or math.isnan(s.p99))]
    if few:
        quantiles = "p95 and p99" if any(math.isnan(s.p95) for s in few) else "p99"
        gaps.append((quantiles, "too few samples: p95 wants 20, p99 wants 100", "--max-requests sends more"))
    if not gaps:
        return []
    table = grid("left", "wrap")
    for what, why, hint in gaps:
        table.add_row(
            say("?", "yellow"), line((what, "bold"), f": {why}", (f"; {hint}" if hint else "", "dim"))
        )
    return [heading("NOT MEASURED"), indent(table)]


def _short(text: str, most: int = _TEXT) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
