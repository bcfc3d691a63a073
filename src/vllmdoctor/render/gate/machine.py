"""A gate as JSON, for programs; schema "vllmdoctor/gate/1".

The object's keys, in this order (later versions of the schema may add keys):

    schema       "vllmdoctor/gate/1"
    judgement    "pass", "improved", "regressed" or "inconclusive"
    headline     one sentence
    measures     name, title, unit, better, baseline, candidate, ratio, low, high, tolerance, judgement,
                 detectable, blocks [baseline, candidate], buckets, basis, why, weighs, share
    context      numbers to know, not judged: name, title, unit, baseline, candidate
    baseline, candidate
                 targets, kind, model, version, start, end, runs, requests, about
    changes      settings that differ: key, baseline, candidate
    causes       findings on the candidate: slug, title, summary, severity, confidence, new, page
    notes, false_alarm, lenient

Ratios are candidate / baseline. Units are SI. NaN and infinity are null.
"""

import dataclasses
import json

from vllmdoctor.model_gate import Gate
from vllmdoctor.render.machine import plain

SCHEMA = "vllmdoctor/gate/1"


def render(gate: Gate, *, width: int = 100, color: bool = False, encoding: str = "utf-8") -> str:
    """`gate` as indented JSON; the options are those of every format."""
    document = {"schema": SCHEMA} | {f.name: plain(getattr(gate, f.name)) for f in dataclasses.fields(gate)}
    return json.dumps(document, indent=1, allow_nan=False) + "\n"
