"""A gate as SARIF 2.1.0: a result for each measure that regressed or that the data cannot tell."""

import json
from collections.abc import Mapping
from urllib.parse import quote

from vllmdoctor import __version__
from vllmdoctor.model_gate import Gate, Judgement, Measure
from vllmdoctor.render.gate import words
from vllmdoctor.render.machine import plain
from vllmdoctor.render.words import harmless

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: Mapping[Judgement, str] = {Judgement.REGRESSED: "error", Judgement.INCONCLUSIVE: "warning"}


def render(gate: Gate, *, width: int = 100, color: bool = False, encoding: str = "utf-8") -> str:
    """`gate` as one SARIF run; the options are those of every format."""
    rules = [
        {
            "id": f"gate/{measure.name}",
            "name": measure.name,
            "shortDescription": {"text": f"{measure.title} got worse than the tolerance"},
            "defaultConfiguration": {"level": "error"},
        }
        for measure in gate.measures
    ]
    run = {
        "tool": {
            "driver": {
                "name": "vllmdoctor",
                "version": __version__,
                "semanticVersion": __version__,
                "rules": rules,
            }
        },
        "results": [
            _result(gate, index, measure)
            for index, measure in enumerate(gate.measures)
            if measure.judgement in _LEVELS and measure.weighs
        ],
        "properties": {
            "judgement": gate.judgement.value,
            "headline": gate.headline,
            "baseline": plain(gate.baseline),
        },
    }
    document = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def _result(gate: Gate, index: int, measure: Measure) -> dict[str, object]:
    level = _LEVELS[measure.judgement]
    if gate.lenient and measure.judgement is Judgement.INCONCLUSIVE:
        level = "note"
    target = harmless(gate.candidate.targets[0]) if gate.candidate.targets else "candidate"
    likely = "".join(f" Likely why: {c.title} ({c.slug})." for c in gate.causes[:1])
    return {
        "ruleId": f"gate/{measure.name}",
        "ruleIndex": index,
        "level": level,
        "message": {"text": f"{measure.title}: {harmless(words.sentence(measure))}.{likely}"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": quote(target, safe="/:@?&=+,;%#[]~!$'()*-._")},
                    "region": {"startLine": 1},
                }
            }
        ],
        "partialFingerprints": {"gateMeasure/v1": measure.name},
    }
