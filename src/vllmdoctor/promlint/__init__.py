"""Rules and dashboards that somebody has: what is wrong in their PromQL, and how it is written right.

reading, places   a file -> its expressions, and where each stands
parse, show       an expression -> a tree -> an expression
lives             what is known of a name
check_*           one kind of mistake each: a tree -> steps that correct it
mend, linting     an expression, a file: judged and corrected
report            findings -> rows and JSON
"""

from vllmdoctor.promlint.linting import Faulty, Finding, Linted, lint_file, lint_text
from vllmdoctor.promlint.report import as_json, blocks, head

__all__ = ["Faulty", "Finding", "Linted", "as_json", "blocks", "head", "lint_file", "lint_text"]
