"""Signals as PromQL: for rules, alerts and dashboards.

names    which names a signal has on the releases or servers at hand
metrics  a signal's rate, mean, quantile, ... as an expression
text     strings, matchers and the choice between expressions
"""

from vllmdoctor.promql.metrics import PER_ENGINE, Metrics, NotShown
from vllmdoctor.promql.names import Spelling, all_names, names_for, names_on
from vllmdoctor.promql.text import bare, either, in_lines, label_of, literal, matchers_of, one_of, quoted

__all__ = [
    "PER_ENGINE",
    "Metrics",
    "NotShown",
    "Spelling",
    "all_names",
    "bare",
    "either",
    "in_lines",
    "label_of",
    "literal",
    "matchers_of",
    "names_for",
    "names_on",
    "one_of",
    "quoted",
]
