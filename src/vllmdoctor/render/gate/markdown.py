"""A gate as Markdown: a comment on a pull request, or the summary of a build step."""

from vllmdoctor.model_gate import Gate, Judgement, Measure
from vllmdoctor.render.gate import words
from vllmdoctor.render.quantity import quantity
from vllmdoctor.render.words import harmless

_ICONS = {
    Judgement.PASS: "✅",
    Judgement.IMPROVED: "✅",
    Judgement.REGRESSED: "❌",
    Judgement.INCONCLUSIVE: "⚠️",
}
_ESCAPED = str.maketrans(
    {c: f"\\{c}" for c in "\\`*_[]|#~$"} | {"<": "&lt;", ">": "&gt;", "@": "&#64;", "&": "&amp;"}
)


def render(gate: Gate, *, width: int = 100, color: bool = False, encoding: str = "utf-8") -> str:
    """`gate` as Markdown; the options are those of every format."""
    lines = [
        f"### {_ICONS[gate.judgement]} vllmdoctor gate: {words.NAMES[gate.judgement]}",
        "",
        escaped(gate.headline[:1].upper() + gate.headline[1:]) + ".",
        "",
        "| | measure | baseline | candidate | change | lies within | allowed | could show |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
        *(_row(m) for m in gate.measures),
        "",
    ]
    remarks = [
        f"- {escaped(m.title)}: {escaped('; '.join(found))}"
        for m in gate.measures
        if (found := words.notes(m))
    ]
    lines += [*remarks, ""] if remarks else []
    lines += [
        f"Baseline: {escaped(words.told(gate.baseline))}  ",
        f"Candidate: {escaped(words.told(gate.candidate))}  ",
        f"{words.certainty(gate)[:1].upper()}{words.certainty(gate)[1:]}.",
        "",
    ]
    if gate.changes:
        lines += ["**What else changed**", ""]
        lines += [f"- {escaped(c.key)}: {escaped(words.changed(c))}" for c in gate.changes]
        lines.append("")
    if gate.causes:
        lines += ["**Likely why**", ""]
        for cause in gate.causes:
            known = "" if cause.new else " (also in the baseline)"
            told = f": {escaped(cause.summary)}" if cause.summary else ""
            title = f"[{escaped(cause.title)}]({cause.page})" if "://" in cause.page else escaped(cause.title)
            lines.append(f"- {title}{known}{told}; `vllmdoctor explain {cause.slug}`")
        lines.append("")
    if gate.context:
        lines += [
            "<details><summary>Numbers to know</summary>",
            "",
            "| | baseline | candidate |",
            "|---|--:|--:|",
        ]
        lines += [
            f"| {escaped(c.title)} | {quantity(c.baseline, c.unit)} | {quantity(c.candidate, c.unit)} |"
            for c in gate.context
        ]
        lines += ["", "</details>", ""]
    lines += [f"> {escaped(note)}" for note in gate.notes]
    return "\n".join(lines).rstrip("\n") + "\n"


def escaped(text: str) -> str:
    """Text from outside, so that Markdown shows it as it is and it stays on its line."""
    return harmless(text).translate(_ESCAPED)


def _row(measure: Measure) -> str:
    cells = (
        _ICONS[measure.judgement],
        escaped(measure.title),
        quantity(measure.baseline, measure.unit),
        quantity(measure.candidate, measure.unit),
        f"**{words.difference(measure)}**"
        if measure.judgement is Judgement.REGRESSED
        else words.difference(measure),
        words.interval(measure),
        words.allowed(measure),
        words.shown(measure),
    )
    return "| " + " | ".join(cells) + " |"
