"""Names: gone, hidden, not yet there, never there, misspelt; and labels that no series has."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from vllmdoctor.model import Severity
from vllmdoctor.promlint.flaws import Context, Step
from vllmdoctor.promlint.lives import (
    ROUTER,
    ROUTERS_LABEL,
    Metric,
    begin,
    end,
    metric,
    spelt_as,
    state,
    successor,
)
from vllmdoctor.promlint.nearest import nearest
from vllmdoctor.promlint.nodes import (
    Aggregate,
    Binary,
    Call,
    Node,
    Number,
    Paren,
    Selector,
    paths,
    selectors,
)
from vllmdoctor.promlint.replacements import COUSINS, INSTEAD, replaced
from vllmdoctor.promlint.show import show
from vllmdoctor.release import short
from vllmdoctor.signals import canonical_name

_LABELS: Mapping[str, str] = MappingProxyType(
    {"model": "model_name", "finish_reason": "finished_reason", "engine_id": "engine"}
)


def names(tree: Node, context: Context) -> Iterator[Step]:
    """Each series whose name a server does not show."""
    for node, above in paths(tree):
        if isinstance(node, Selector) and _vllm(node.name, context) and not _of_router(node, above):
            yield from _name(node, above, context)


def _of_router(node: Selector, above: tuple[Node, ...]) -> bool:
    """Whether it is a series of a router in front, which has names of its own under the same prefix."""
    grouped = any(isinstance(each, Aggregate) and ROUTERS_LABEL in each.labels for each in above)
    return node.name in ROUTER or grouped or any(m.label == ROUTERS_LABEL for m in node.matchers)


def _vllm(name: str, context: Context) -> bool:
    """Whether a name is meant for vLLM's own; recorded series carry a second colon."""
    if any(c in name for c in "$[{") or name in context.recorded:
        return False
    if name.startswith("vllm:"):
        return ":" not in name.removeprefix("vllm:")
    return name.startswith("vllm_") or canonical_name(name).startswith("vllm:")


def _name(node: Selector, above: tuple[Node, ...], context: Context) -> Iterator[Step]:
    found = metric(node.name)
    if found is None:
        if node.name.startswith(("vllm:", "vllm_")):
            yield _never(node, above, context)
        return
    if node.name.startswith("vllm_"):
        new = replace(node, name=found.name)
        yield Step(
            "underscore-name", Severity.WARNING, node, new,
            f"vLLM spells it {found.name}; with an underscore only behind Ray or an OpenTelemetry collector",
        )  # fmt: skip
    elif f"{node.name}_total" == found.name and node.name.startswith("vllm:"):
        new = replace(node, name=found.name)
        yield Step(
            "counter-without-total", Severity.CRITICAL, node, new,
            f"the counter is exposed as {found.name}: this name has no series",
        )  # fmt: skip
    else:
        yield from _life(node, found, above, context)


def _life(node: Selector, found: Metric, above: tuple[Node, ...], context: Context) -> Iterator[Step]:
    now = state(found.family, context.release)
    if now == "shown" or _covered(node, found, above, context):
        return
    other = successor(found, context.release)
    since = f" (since {short(begin(other.family))})" if other and context.release is None else ""
    instead = f"; now {spelt_as(node.name, other.family)}{since}" if other else ""
    if now == "early":
        what = f"came with {short(begin(found.family))}; this is {context.release}{instead}"
        slug, severity = "not-yet", Severity.CRITICAL
    elif now == "hidden":
        what = f"{end(found.family)}: shown only on request{instead}"
        slug, severity = "hidden-name", Severity.WARNING
    else:
        always = any(isinstance(each, Call) and each.func == "absent" for each in above)
        empty = "so absent() is always true" if always else "no series has this name"
        what = f"{end(found.family)}: {empty}{instead or _advice(found.family)}"
        slug, severity = "dead-name", Severity.CRITICAL
    if other is not None:
        new: Node | None = replace(node, name=spelt_as(node.name, other.family + found.part))
        yield Step(slug, severity, node, new, what)
        return
    old, new = replaced(found.family, node, above, context.window)
    yield Step(slug, severity, old, new, what)


def _advice(family: str) -> str:
    return f"; {INSTEAD[family].words}" if family in INSTEAD else ""


def _covered(node: Selector, found: Metric, above: tuple[Node, ...], context: Context) -> bool:
    """Whether the other side of an `or` reads the same thing under a name that is shown."""
    inside: Node = node
    for parent in reversed(above):
        if isinstance(parent, Binary) and parent.op == "or":
            other = parent.rhs if parent.lhs is inside else parent.lhs
            for each in selectors(other):
                twin = metric(each.name)
                same = twin is not None and twin.signal is not None and twin.signal is found.signal
                if twin is None or not (same or twin.family in COUSINS.get(found.family, ())):
                    continue
                if state(twin.family, context.release) == "shown":
                    return True
        inside = parent
    return False


def _never(node: Selector, above: tuple[Node, ...], context: Context) -> Step:
    name = "vllm:" + node.name.removeprefix("vllm:").removeprefix("vllm_")
    if name in INSTEAD:
        old, new = replaced(name, node, above, context.window)
        return Step("unknown-name", Severity.CRITICAL, old, new, f"never existed: {INSTEAD[name].words}")
    what = "no release of vLLM has had it"
    found = nearest(name, context.release)
    if not found.name:
        text = f"; {found.advice}" if found.advice else ""
        return Step("unknown-name", Severity.CRITICAL, node, None, what + text)
    near = replace(node, name=found.name, matchers=(*node.matchers, *found.matchers))
    shown = show(Selector(found.name, found.matchers))
    return Step("unknown-name", Severity.CRITICAL, node, near, f"{what}; nearest: {shown}")


def labels(tree: Node, context: Context) -> Iterator[Step]:
    """Labels that vLLM does not write, in matchers and groupings of its own series."""
    for node, _ in paths(tree):
        if isinstance(node, Selector) and _own(node):
            wrong = {m.label: _LABELS[m.label] for m in node.matchers if m.label in _LABELS}
            if wrong:
                new = tuple(replace(m, label=wrong.get(m.label, m.label)) for m in node.matchers)
                yield _label(node, replace(node, matchers=new), wrong)
        elif isinstance(node, Aggregate) and node.labels:
            inside = list(selectors(node))
            wrong = {label: _LABELS[label] for label in node.labels if label in _LABELS}
            if wrong and inside and all(_own(each) for each in inside):
                new_labels = tuple(dict.fromkeys(wrong.get(label, label) for label in node.labels))
                yield _label(node, replace(node, labels=new_labels), wrong)


def _own(node: Selector) -> bool:
    found = metric(node.name)
    return found is not None and found.family.startswith("vllm:")


def _label(old: Node, new: Node, wrong: Mapping[str, str]) -> Step:
    said = "; ".join(f"vLLM's label is {right}, not {label}" for label, right in wrong.items())
    return Step("unknown-label", Severity.WARNING, old, new, f"{said} (unless relabelling adds it)")


def histograms(tree: Node, context: Context) -> Iterator[Step]:
    """A histogram's own name has no series: only _bucket, _sum and _count have."""
    for node, above in paths(tree):
        found = metric(node.name) if isinstance(node, Selector) else None
        if found is None or not isinstance(node, Selector) or found.kind != "histogram" or found.part:
            continue
        if context.use == "variable":
            continue
        what = f"a histogram: only {found.family}_bucket, _sum and _count have series"
        quantile = next((p for p in above if isinstance(p, Call) and p.func == "histogram_quantile"), None)
        if quantile is not None:
            new: Node = replace(node, name=found.family + "_bucket")
            yield Step("bare-histogram", Severity.CRITICAL, node, new, what)
            continue
        old: Node = node
        if node.range and above and isinstance(above[-1], Call):
            old = above[-1]
        window = node.range or context.window
        yield Step("bare-histogram", Severity.CRITICAL, old, _of_histogram(node, found, window), what)


def _of_histogram(node: Selector, found: Metric, window: str) -> Node:
    """A quantile where the file asks for one, the sum where it is tokens, else the mean."""
    asked = next((m.value for m in node.matchers if m.label == "quantile"), "")
    kept = tuple(m for m in node.matchers if m.label != "quantile")

    def rate(part: str) -> Node:
        name = found.family + part
        return Call("rate", (replace(node, name=name, said=name, matchers=kept, range=window),))

    if asked:
        return Call("histogram_quantile", (Number(asked), Aggregate("sum", rate("_bucket"), "by", ("le",))))
    if found.family == "vllm:iteration_tokens_total":
        return rate("_sum")
    return Paren(Binary("/", rate("_sum"), rate("_count")))
