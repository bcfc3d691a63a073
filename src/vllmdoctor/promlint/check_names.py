"""Names: gone, hidden, not yet there, never there, misspelt; and labels that no series has."""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from vllmdoctor.model import Severity
from vllmdoctor.promlint.flaws import Context, Step
from vllmdoctor.promlint.lives import PARTS, Metric, begin, end, metric, shown_names, state, successor
from vllmdoctor.promlint.nodes import Aggregate, Binary, Call, Node, Number, Paren, Selector, paths, selectors
from vllmdoctor.promlint.replacements import COUSINS, INSTEAD, replaced
from vllmdoctor.release import short
from vllmdoctor.signals import NEVER_EXISTED, canonical_name

_LIKE = 0.84  # names that differ by a letter or a plural
_LABELS: Mapping[str, str] = MappingProxyType(
    {"model": "model_name", "finish_reason": "finished_reason", "engine_id": "engine"}
)


def names(tree: Node, context: Context) -> Iterator[Step]:
    """Each series whose name a server does not show."""
    for node, above in paths(tree):
        if isinstance(node, Selector) and _vllm(node.name, context):
            yield from _name(node, above, context)


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
    instead = f"; now {other.family}{since}" if other else ""
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
        new: Node | None = replace(node, name=other.family + found.part)
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
                if twin is None or not (same or twin.family == COUSINS.get(found.family)):
                    continue
                if state(twin.family, context.release) == "shown":
                    return True
        inside = parent
    return False


def _never(node: Selector, above: tuple[Node, ...], context: Context) -> Step:
    name = "vllm:" + node.name.removeprefix("vllm:").removeprefix("vllm_")
    old, new = replaced(name, node, above, context.window)
    if name in INSTEAD:
        return Step("unknown-name", Severity.CRITICAL, old, new, f"never existed: {INSTEAD[name].words}")
    told = NEVER_EXISTED.get(name, "")
    near = told if metric(told) else _nearest(name, context)
    if not near:
        text = f"; {told}" if told else ""
        return Step("unknown-name", Severity.CRITICAL, node, None, f"no release of vLLM has had it{text}")
    what = f"no release of vLLM has had it; nearest: {near}"
    return Step("unknown-name", Severity.CRITICAL, node, replace(node, name=near), what)


def _nearest(name: str, context: Context) -> str:
    """The name that was probably meant, by its letters or by what its words are about."""
    part = next((p for p in PARTS if name.endswith(p)), "")
    stem = name.removesuffix(part)
    families = [f for f in shown_names(context.release) if not part or metric(f).kind == "histogram"]  # type: ignore[union-attr]
    close = difflib.get_close_matches(stem, families, n=1, cutoff=_LIKE)
    if not close and not part:
        close = difflib.get_close_matches(f"{stem}_total", families, n=1, cutoff=_LIKE)
    if close:
        return close[0] + part
    for words, family in COUSINS_BY_WORD:
        if any(word in stem for word in words) and family in families:
            return family + part
    return ""


# What people call it -> the family.
COUSINS_BY_WORD: tuple[tuple[tuple[str, ...], str], ...] = (
    (("ttft", "first_token"), "vllm:time_to_first_token_seconds"),
    (("itl", "inter_token"), "vllm:inter_token_latency_seconds"),
    (("tpot", "per_output_token"), "vllm:request_time_per_output_token_seconds"),
    (("queue_time", "time_in_queue", "queue_duration", "waiting_time"), "vllm:request_queue_time_seconds"),
    (("e2e", "request_latency", "request_duration", "latency"), "vllm:e2e_request_latency_seconds"),
    (("preempt",), "vllm:num_preemptions_total"),
    (("waiting", "queue", "pending"), "vllm:num_requests_waiting"),
    (("running", "active_req", "in_flight"), "vllm:num_requests_running"),
    (("cache_hit",), "vllm:prefix_cache_hits_total"),
    (("cache_usage", "kv_cache", "kv_usage", "cache_util"), "vllm:kv_cache_usage_perc"),
    (("prompt_token", "input_token"), "vllm:prompt_tokens_total"),
    (("generation_token", "output_token", "completion_token", "generated_token"),
     "vllm:generation_tokens_total"),
    (("request_count", "requests_total", "request_total", "requests_finished"), "vllm:request_success_total"),
)  # fmt: skip


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
