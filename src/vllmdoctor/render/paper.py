"""The order of a report's sections."""

from rich.console import RenderableType

from vllmdoctor.model import EngineReport, Report, Verdict
from vllmdoctor.render import evidence, foot, head, picture, steps
from vllmdoctor.render.sheet import Look, heading


def pages(report: Report, look: Look) -> list[RenderableType]:
    """All sections of the report, the worst engine's details first."""
    brief = report.verdict in (Verdict.HEALTHY, Verdict.BLIND)
    sick = report.verdict in (Verdict.SICK, Verdict.AT_RISK)
    parts: list[RenderableType] = [head.headline(report), head.looked_at(report)]
    if report.verdict is Verdict.BLIND:
        # What is missing is the finding here.
        parts += foot.gaps(report.gaps, look)
    if len(report.engines) > 1:
        parts += [heading("ENGINES", "worst first"), head.engines(report, verbose=look.verbose)]
    for engine in report.engines[:1]:
        parts += _engine(engine, report, look, brief=brief)
    parts += steps.plan(report.plan, sick=sick)
    if look.verbose:
        for engine in report.engines[1:]:
            parts.append(heading(f"ENGINE {engine.engine or '-'}", engine.instance))
            parts += _engine(engine, report, look, brief=False)
        parts += foot.settings(report)
    if report.verdict is not Verdict.BLIND:
        parts += foot.gaps(report.gaps, look)
    parts += foot.notes(report, look)
    return parts + foot.footer(report, look)


def _engine(engine: EngineReport, report: Report, look: Look, *, brief: bool) -> list[RenderableType]:
    return [
        *picture.symptoms(engine, report.compared, look),
        *picture.trends(engine, look),
        *evidence.findings(engine, look),
        *evidence.others(engine, look, brief=brief),
    ]
