"""One expression: its mistakes, and the whole of it without them."""

from dataclasses import dataclass

from vllmdoctor.model import Severity
from vllmdoctor.promlint import check_aggregates, check_alerts, check_counters, check_limits, check_names
from vllmdoctor.promlint.flaws import Check, Context, Flaw, Step
from vllmdoctor.promlint.nodes import Node, Selector, selectors, swap
from vllmdoctor.promlint.parse import Unreadable, parse
from vllmdoctor.promlint.show import show

# Names first, since the others ask what a name is; then what is read; then how it is compared.
CHECKS: tuple[Check, ...] = (
    check_names.names,
    check_names.labels,
    check_names.histograms,
    check_counters.rates_of_sums,
    check_counters.gauges,
    check_counters.counters,
    check_aggregates.ratios,
    check_aggregates.quantiles,
    check_aggregates.joins,
    check_limits.units,
    check_limits.panels,
    check_limits.windows,
    check_limits.divisions,
    check_alerts.last_two,
    check_alerts.idle,
    check_alerts.full,
)
_ROUNDS = 12  # each round corrects all it finds; nested mistakes take one each


@dataclass(frozen=True, slots=True)
class Judged:
    """An expression's flaws, and the whole of it corrected; "" where there is nothing to correct."""

    flaws: tuple[Flaw, ...]
    corrected: str


def judge(text: str, context: Context) -> Judged:
    """Check an expression and correct it. What is no PromQL is a flaw as well, and is not corrected."""
    try:
        tree = parse(text)
    except Unreadable as error:
        return Judged((Flaw("unreadable", Severity.WARNING, text, f"not read: {error}"),), "")
    flaws: dict[tuple[str, str], Flaw] = {}
    start = tree
    for check in CHECKS:
        for _ in range(_ROUNDS):
            tree, changed = _round(check, tree, context, flaws)
            if not changed:
                break
    if check_alerts.needs_for(tree, context):
        what = "no `for`: a single scrape fires it; for: 5m"
        flaws["missing-for", ""] = Flaw("missing-for", Severity.INFO, "", what)
    return Judged(tuple(flaws.values()), show(tree) if tree is not start else "")


def _round(
    check: Check, tree: Node, context: Context, flaws: dict[tuple[str, str], Flaw]
) -> tuple[Node, bool]:
    """The expression with all that one check finds corrected, inner pieces first."""
    changed = False
    told: list[Flaw] = []
    for step in reversed(list(check(tree, context))):
        if step.new is not None:
            new = swap(tree, step.old, step.new)
            if new is tree:
                continue  # it stood in a piece that has been replaced: the next round looks again
            tree, changed = new, True
        told.append(_flaw(step))
    for flaw in reversed(told):
        flaws.setdefault((flaw.slug, flaw.piece), flaw)
    return tree, changed


def _flaw(step: Step) -> Flaw:
    names = tuple(each.said or each.name for each in selectors(step.old))
    piece = names[0] if isinstance(step.old, Selector) else show(step.old, said=True)
    return Flaw(step.slug, step.severity, piece, step.what, names)
