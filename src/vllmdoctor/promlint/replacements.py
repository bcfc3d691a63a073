"""What to write for names that have no new name: another expression says the same."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from vllmdoctor.promlint.nodes import Aggregate, Binary, Call, Node, Paren, Selector

_HITS, _QUERIES = "vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"
_ACCEPTED, _DRAFTED = (
    "vllm:spec_decode_num_accepted_tokens_total",
    "vllm:spec_decode_num_draft_tokens_total",
)


@dataclass(frozen=True, slots=True)
class Instead:
    """`op` joins the series named in `names`; "rate" is the rate of one; "" cannot be replaced."""

    words: str
    op: str = ""
    names: tuple[str, ...] = ()


INSTEAD: Mapping[str, Instead] = MappingProxyType(
    {
        "vllm:avg_prompt_throughput_toks_per_s": Instead(
            "it is the rate of vllm:prompt_tokens_total", "rate", ("vllm:prompt_tokens_total",)
        ),
        "vllm:avg_generation_throughput_toks_per_s": Instead(
            "it is the rate of vllm:generation_tokens_total", "rate", ("vllm:generation_tokens_total",)
        ),
        "vllm:gpu_prefix_cache_hit_rate": Instead("it is hits per lookup", "share", (_HITS, _QUERIES)),
        "vllm:spec_decode_draft_acceptance_rate": Instead(
            "it is accepted per drafted tokens", "share", (_ACCEPTED, _DRAFTED)
        ),
        "vllm:tokens_total": Instead(
            "it is prompt and generation tokens",
            "+",
            ("vllm:prompt_tokens_total", "vllm:generation_tokens_total"),
        ),
        "vllm:prefix_cache_miss_total": Instead("misses are queries - hits", "-", (_QUERIES, _HITS)),
        "vllm:prefix_cache_misses_total": Instead("misses are queries - hits", "-", (_QUERIES, _HITS)),
        "vllm:prefix_cache_hit_rate": Instead("it is hits per lookup", "share", (_HITS, _QUERIES)),
        "vllm:num_requests_swapped": Instead("V1 never swaps, it preempts: remove it"),
        "vllm:cpu_cache_usage_perc": Instead("V1 has no swap space on the host: remove it"),
        "vllm:cpu_prefix_cache_hit_rate": Instead("V1 has no such cache: remove it"),
        "vllm:model_forward_time_milliseconds": Instead("see vllm:request_inference_time_seconds"),
        "vllm:model_execute_time_milliseconds": Instead("see vllm:request_inference_time_seconds"),
        "vllm:spec_decode_efficiency": Instead("see accepted per drafted tokens"),
        "vllm:spec_decode_num_emitted_tokens_total": Instead("see vllm:generation_tokens_total"),
        "vllm:prompt_tokens_recomputed_total": Instead("see vllm:num_preemptions_total"),
    }
)

# A signal that two names tell in different kinds: a gauge of V0 and counters of V1.
COUSINS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        name: INSTEAD[name].names
        for name in (
            "vllm:gpu_prefix_cache_hit_rate",
            "vllm:spec_decode_draft_acceptance_rate",
            "vllm:avg_prompt_throughput_toks_per_s",
            "vllm:avg_generation_throughput_toks_per_s",
        )
    }
)


def replaced(family: str, node: Selector, above: tuple[Node, ...], window: str) -> tuple[Node, Node | None]:
    """The piece that goes, and what comes; None for it where nothing says the same."""
    instead = INSTEAD.get(family)
    if instead is None:
        return node, None
    call = above[-1] if above and isinstance(above[-1], Call) and node.range else None
    if not instead.op:
        return _dropped(node, above)
    func = call.func if call is not None and instead.op in "+-" else "rate"
    parts: list[Node] = []
    for name in instead.names:
        one = replace(node, name=name, said=name)
        if instead.op in "+-" and call is None:
            parts.append(one)
        else:
            parts.append(Call(func, (replace(one, range=node.range or window),)))
    old: Node = node if call is None else call
    if instead.op == "rate":
        return old, parts[0]
    op = "/" if instead.op == "share" else instead.op
    return old, Paren(Binary(op, parts[0], parts[1]))


def _dropped(node: Selector, above: tuple[Node, ...]) -> tuple[Node, Node | None]:
    """A sum or a choice goes on without the term; elsewhere nothing can stand in its place."""
    inner: Node = node
    for parent in reversed(above):
        if isinstance(parent, Binary):
            if parent.op in ("+", "or"):
                return parent, parent.rhs if parent.lhs is inner else parent.lhs
            break
        if not isinstance(parent, Paren | Aggregate | Call):
            break
        inner = parent
    return node, None
