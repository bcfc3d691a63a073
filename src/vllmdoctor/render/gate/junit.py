"""A gate as JUnit XML: a test case for each measure."""

from xml.sax.saxutils import escape, quoteattr

from vllmdoctor.model_gate import Gate, Judgement, Measure
from vllmdoctor.render.gate import words
from vllmdoctor.render.words import harmless

_SUITE = "vllmdoctor gate"


def render(gate: Gate, *, width: int = 100, color: bool = False, encoding: str = "utf-8") -> str:
    """`gate` as one test suite; the options are those of every format.

    A regression is a failure; what the data cannot tell is an error, or skipped where that may pass.
    """
    kinds = [_kind(m, lenient=gate.lenient) for m in gate.measures]
    counts = {kind: kinds.count(kind) for kind in ("failure", "error", "skipped")}
    head = f'tests="{len(kinds)}" failures="{counts["failure"]}" errors="{counts["error"]}"'
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f"<testsuites name={_attribute(_SUITE)} {head}>",
        f'  <testsuite name={_attribute(_SUITE)} {head} skipped="{counts["skipped"]}">',
        *(text for m, kind in zip(gate.measures, kinds, strict=True) for text in _case(m, kind)),
        f"    <system-out>{_text(_told(gate))}</system-out>",
        "  </testsuite>",
        "</testsuites>",
    ]
    return "\n".join(lines) + "\n"


def _kind(measure: Measure, *, lenient: bool) -> str:
    match measure.judgement:
        case Judgement.REGRESSED:
            return "failure"
        case Judgement.INCONCLUSIVE:
            return "skipped" if lenient or not measure.weighs else "error"
    return ""


def _case(measure: Measure, kind: str) -> list[str]:
    opened = f"    <testcase classname={_attribute(_SUITE)} name={_attribute(measure.title)}"
    if not kind:
        return [
            opened + ">",
            f"      <system-out>{_text(words.sentence(measure))}</system-out>",
            "    </testcase>",
        ]
    message = f"message={_attribute(words.sentence(measure))}"
    typed = f' type="{measure.judgement.value}"' if kind != "skipped" else ""
    return [opened + ">", f"      <{kind} {message}{typed}/>", "    </testcase>"]


def _told(gate: Gate) -> str:
    lines = [f"{words.NAMES[gate.judgement]}: {gate.headline}"]
    lines += [f"baseline: {words.told(gate.baseline)}", f"candidate: {words.told(gate.candidate)}"]
    lines += [f"changed: {c.key} {words.changed(c)}" for c in gate.changes]
    lines += [f"likely why: {c.title} [{c.slug}] {c.summary}" for c in gate.causes]
    return "\n".join([*lines, *gate.notes])


def _text(text: str) -> str:
    return escape("\n".join(map(harmless, text.splitlines())))


def _attribute(text: str) -> str:
    return quoteattr(harmless(text))
