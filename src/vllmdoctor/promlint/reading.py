"""The expressions of a file: alert rules, recording rules, dashboards, scalers, however they are wrapped.

Rules files of Prometheus, PrometheusRule and VMRule, chart values, ConfigMaps that hold any of
these, Grafana dashboards (rows, library panels, both models), Grafana's own alerts, and KEDA
triggers have one thing in common: an expression stands under `expr`, or under `query`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from vllmdoctor.errors import UsageError
from vllmdoctor.launch_yaml import Written
from vllmdoctor.promlint.flaws import Use

_LABEL_VALUES = re.compile(r"(\s*label_values\s*\()(.*)(,\s*[\w$]+\s*\)\s*)\Z", re.DOTALL)
_QUERY_RESULT = re.compile(r"(\s*query_result\s*\()(.*)(\)\s*)\Z", re.DOTALL)
_NESTED = re.compile(r"\bexpr\b")
_NOT_PROMQL = frozenset(
    ("cloudwatch", "elasticsearch", "graphite", "influxdb", "loki", "mysql", "postgres", "tempo")
)
_MOST = 1_000_000  # parts; a large dashboard has ten thousand


@dataclass(frozen=True, slots=True)
class Site:
    """Where the walk is: the panel or rule around, its unit, its kind of data source, the query."""

    title: str = ""
    unit: str = ""
    store: str = ""
    variable: str = ""
    query: str = ""


@dataclass(frozen=True, slots=True)
class Expression:
    """One expression and what stands around it.

    `before` and `after` are what wraps it (`label_values(` ... `, pod)`); `key` is the mapping's key
    it stands under; `anchor` the place of that key, where a missing `for` can be put.
    """

    text: str
    use: Use
    place: str
    source: str
    key: str
    before: str = ""
    after: str = ""
    unit: str = ""
    held: str = ""
    texts: str = ""
    anchor: Written | None = None


@dataclass(frozen=True, slots=True)
class Nested:
    """A string that is a file of its own: a ConfigMap's or a GrafanaDashboard's."""

    text: str
    place: str


@dataclass(slots=True)
class Read:
    """All that a document holds, in its order, and the names that its recording rules make."""

    items: list[Expression | Nested] = field(default_factory=list)
    recorded: set[str] = field(default_factory=set)
    parts: int = 0


def read(documents: tuple[object, ...]) -> Read:
    """The expressions of parsed YAML or JSON documents; UsageError where their aliases make them endless."""
    found = Read()
    for document in documents:
        _walk(document, Site(), found)
    return found


def _walk(value: object, site: Site, found: Read) -> None:
    found.parts += 1
    if found.parts > _MOST:
        raise UsageError("too large to read: aliases repeat its parts too often")
    if isinstance(value, Mapping):
        _mapping(value, site, found)
    elif isinstance(value, list):
        for each in value:
            _walk(each, site, found)


def _mapping(value: Mapping[object, object], site: Site, found: Read) -> None:
    site = _site(value, site)
    if value.get("kind") == "ScaledObject":
        found.items.extend(_triggers(value))
        return
    for key, inner in value.items():
        if isinstance(inner, str):
            found.items.extend(_string(str(key), key, inner, value, site, found))
        else:
            _walk(inner, site, found)


def _string(
    key: str, key_at: object, text: str, around: Mapping[object, object], site: Site, found: Read
) -> Iterator[Expression | Nested]:
    if key == "record":
        found.recorded.add(text)
    elif key == "expr":
        if site.store not in _NOT_PROMQL and text.strip():
            yield _expression(text, key_at, around, site)
    elif key in ("query", "definition"):
        yield from _variable(text, key, site)
    elif ("\n" in text or text.lstrip().startswith("{")) and _NESTED.search(text):
        yield Nested(text, key)


def _site(value: Mapping[object, object], site: Site) -> Site:
    title, unit, store = value.get("title"), _unit(value), value.get("datasource")
    if isinstance(title, str) and title:
        site = Site(title, "", site.store)
    if isinstance(value.get("refId"), str):
        site = replace(site, query=str(value["refId"]))
    if value.get("type") == "query" and isinstance(value.get("name"), str):
        site = replace(site, variable=str(value["name"]))
    inner = value.get("spec")
    if value.get("kind") == "QueryVariable" and isinstance(inner, Mapping):
        site = replace(site, variable=str(inner.get("name") or ""))
    if isinstance(store, Mapping) and isinstance(store.get("type"), str):
        site = replace(site, store=str(store["type"]))
    elif isinstance(store, str) and store.lower() in _NOT_PROMQL:
        site = replace(site, store=store.lower())
    if value.get("kind") == "DataQuery" and isinstance(value.get("group"), str):
        site = replace(site, store=str(value["group"]))
    return replace(site, unit=unit) if unit else site


def _unit(value: Mapping[object, object]) -> str:
    """The unit of all that a panel shows; "" where a part of it has another."""
    config = value.get("fieldConfig")
    if not isinstance(config, Mapping):
        nested: object = value
        for key in ("vizConfig", "spec"):
            nested = nested.get(key) if isinstance(nested, Mapping) else None
        config = nested.get("fieldConfig") if isinstance(nested, Mapping) else None
    defaults = config.get("defaults") if isinstance(config, Mapping) else None
    if not isinstance(config, Mapping) or not isinstance(defaults, Mapping):
        return ""
    if '"unit"' in str(config.get("overrides")).replace("'", '"'):
        return ""
    unit = defaults.get("unit")
    return unit if isinstance(unit, str) else ""


def _expression(text: str, key_at: object, around: Mapping[object, object], site: Site) -> Expression:
    anchor = key_at if isinstance(key_at, Written) else None
    if isinstance(around.get("alert"), str):
        notes = around.get("annotations")
        texts = " ".join(map(str, notes.values())) if isinstance(notes, Mapping) else ""
        held = str(around.get("for") or around.get("keep_firing_for") or "")
        place = f"alert {around['alert']}"
        return Expression(text, "alert", place, text, "expr", held=held, texts=texts, anchor=anchor)
    if isinstance(around.get("record"), str):
        return Expression(text, "record", f"record {around['record']}", text, "expr")
    name = site.title or str(around.get("name") or "") or "untitled"
    place = f'panel "{name}"' + (f", query {site.query}" if site.query else "")
    return Expression(text, "panel", place, text, "expr", unit=site.unit)


def _variable(text: str, key: str, site: Site) -> Iterator[Expression]:
    found = _LABEL_VALUES.match(text) or _QUERY_RESULT.match(text)
    if found is not None and found[2].strip():
        place = f"variable {site.variable}".strip()
        yield Expression(found[2], "variable", place, text, key, found[1], found[3])


def _triggers(value: Mapping[object, object]) -> Iterator[Expression]:
    named, spec = value.get("metadata"), value.get("spec")
    triggers = spec.get("triggers") if isinstance(spec, Mapping) else None
    for each in triggers if isinstance(triggers, list) else ():
        inner = each.get("metadata") if isinstance(each, Mapping) else None
        query = inner.get("query") if isinstance(inner, Mapping) else None
        if isinstance(query, str) and each.get("type") == "prometheus":
            name = named.get("name") if isinstance(named, Mapping) else ""
            yield Expression(query, "trigger", f"ScaledObject {name}", query, "query")
