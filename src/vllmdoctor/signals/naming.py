"""From the names on a page to signals: spellings, families, presence."""

from collections.abc import Collection
from functools import lru_cache

from vllmdoctor.signals.nouns import Name
from vllmdoctor.signals.table import FAMILIES, SIGNALS

_VLLM = "vllm:"
_KNOWN = frozenset(text.removeprefix(_VLLM) for text in FAMILIES if text.startswith(_VLLM))
# Ray Serve may not write a colon, and older NVIDIA NIM writes no prefix at all.
_PREFIXES = (_VLLM, "ray_vllm:", "ray_vllm_", "vllm_", "")
_SAMPLE_SUFFIXES = ("_bucket", "_sum", "_count", "_created")
# Without a prefix these could be anybody's.
_TOO_COMMON = frozenset({"tokens_total"})


def _spelt(body: str) -> str | None:
    """The body as vLLM's own page spells it, or None when no release has it."""
    if body in _KNOWN:
        return body
    if f"{body}_total" in _KNOWN:  # a counter named by its family, as parsers and Ray do
        return f"{body}_total"
    for suffix in _SAMPLE_SUFFIXES:
        stem = body.removesuffix(suffix)
        if stem != body and (stem in _KNOWN or (suffix == "_created" and f"{stem}_total" in _KNOWN)):
            return body
    return None


@lru_cache(maxsize=4096)
def canonical_name(raw: str) -> str:
    """The name as vLLM's own page spells it, for a family as well as for a sample.

    `ray_vllm_num_requests_running`, `vllm_num_requests_running` and NIM's `num_requests_running`
    are all `vllm:num_requests_running`. Names that are not vLLM's come back as they are.
    """
    for prefix in _PREFIXES:
        if raw.startswith(prefix):
            body = raw.removeprefix(prefix)
            spelt = None if not prefix and body in _TOO_COMMON else _spelt(body)
            if spelt is not None:
                return _VLLM + spelt
    return raw


@lru_cache(maxsize=4096)
def family_name(raw: str) -> str:
    """The canonical family of a sample: a known histogram without `_bucket`, `_sum` and `_count`."""
    name = canonical_name(raw)
    for suffix in ("_bucket", "_sum", "_count"):
        if name.endswith(suffix) and name.removesuffix(suffix) in FAMILIES:
            return name.removesuffix(suffix)
    return name


def resolve(present: Collection[str]) -> dict[str, Name]:
    """Which name each signal is read from, newest first; signals without any are left out.

    `present` are the names on the page (families or samples, any spelling). The text of the
    `Name` is canonical: look it up among the page's series by `canonical_name`.
    """
    families = {family_name(raw) for raw in present}
    found: dict[str, Name] = {}
    for signal in SIGNALS.values():
        for name in signal.names:
            if name.text in families:
                found[signal.name] = name
                break
    return found


def unclaimed(present: Collection[str]) -> list[str]:
    """The `vllm:` families that no signal reads and that are not known either: what is new."""
    families = {family_name(raw) for raw in present}
    new = set()
    for family in families:
        if not family.startswith(_VLLM) or family in FAMILIES:
            continue
        if _spelt(family.removeprefix(_VLLM)) is None and not family.endswith("_created"):
            new.add(_stem(family))
    return sorted(new)


def _stem(family: str) -> str:
    """An unknown name's likely family: `x_bucket`, `x_sum` and `x_count` are one histogram."""
    for suffix in ("_bucket", "_sum", "_count"):
        if family.endswith(suffix):
            return family.removesuffix(suffix)
    return family
