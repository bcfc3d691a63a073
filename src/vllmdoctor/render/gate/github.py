"""A gate as annotations of a GitHub workflow: an error a regression, a warning where the data cannot tell."""

from vllmdoctor.model_gate import Gate, Judgement
from vllmdoctor.render.gate import words
from vllmdoctor.render.words import harmless


def render(gate: Gate, *, width: int = 100, color: bool = False, encoding: str = "utf-8") -> str:
    """`gate` as workflow commands, one a line; the options are those of every format."""
    lines = []
    for measure in gate.measures:
        if measure.judgement is Judgement.REGRESSED:
            lines.append(_command("error", f"{measure.title} regressed", words.sentence(measure)))
        elif measure.judgement is Judgement.INCONCLUSIVE and measure.weighs:
            kind = "notice" if gate.lenient else "warning"
            lines.append(_command(kind, f"{measure.title}: cannot tell", words.sentence(measure)))
    for cause in gate.causes if lines else ():
        if cause.new:
            lines.append(_command("notice", f"likely why: {cause.title}", cause.summary or cause.slug))
    for one in gate.changes if lines else ():
        lines.append(_command("notice", f"changed: {one.key}", words.changed(one)))
    if not lines:
        lines.append(_command("notice", f"vllmdoctor gate: {words.NAMES[gate.judgement]}", gate.headline))
    return "\n".join(lines) + "\n"


def _command(kind: str, title: str, message: str) -> str:
    """One workflow command; what would end a property or the line is written as GitHub asks for."""
    return f"::{kind} title={_escaped(title).replace(':', '%3A').replace(',', '%2C')}::{_escaped(message)}"


def _escaped(text: str) -> str:
    return harmless(text).replace("%", "%25")
