"""A dashboard as the JSON that Grafana imports: the classic model, which all its releases take."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from vllmdoctor.dashboard.nouns import Limit, Note, Panel, Query, Row, Variable

SCHEMA = 39  # of Grafana 10.4 and 11; newer releases bring it up to date when they load it
_WIDTH = 24
_STORE = {"type": "prometheus", "uid": "${datasource}"}
_COLORS = {"warning": "orange", "critical": "red"}

_Json = dict[str, Any]


def grafana(
    title: str,
    uid: str,
    about: str,
    rows: Sequence[Row],
    notes: Sequence[Note],
    variables: Sequence[Variable],
    runbooks: str = "",
) -> str:
    """The dashboard's JSON; the text is the same for the same rows. `runbooks` is where pages are read."""
    document: _Json = {
        "title": title,
        "uid": uid,
        "description": about,
        "tags": ["vllm", "vllmdoctor"],
        "schemaVersion": SCHEMA,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "links": [],
        "annotations": {"list": [_note(note) for note in notes]},
        "templating": {"list": [_store(), *(_variable(each) for each in variables)]},
        "panels": list(_panels(rows, runbooks)),
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _panels(rows: Sequence[Row], runbooks: str) -> Iterator[_Json]:
    top, number = 0, 0
    for row in rows:
        number += 1
        place = {"h": 1, "w": _WIDTH, "x": 0, "y": top}
        head: _Json = {"type": "row", "id": number, "title": row.title, "gridPos": place}
        yield head | {"collapsed": False, "panels": []}
        top += 1
        for line in _lines(row):
            wide = _WIDTH // len(line)
            for column, panel in enumerate(line):
                number += 1
                place = {"h": row.height, "w": wide, "x": column * wide, "y": top}
                yield _panel(panel, number, place, runbooks)
            top += row.height


def _lines(row: Row) -> Iterator[tuple[Panel, ...]]:
    """The panels of each line, spread evenly: ten of three across are 3, 3, 2 and 2."""
    count = -(-len(row.panels) // row.across)
    each, more = divmod(len(row.panels), count)
    start = 0
    for index in range(count):
        end = start + each + (index < more)
        yield row.panels[start:end]
        start = end


def _panel(panel: Panel, number: int, place: _Json, runbooks: str) -> _Json:
    return {
        "type": panel.kind,
        "id": number,
        "title": panel.title,
        "description": _description(panel, runbooks),
        "datasource": _STORE,
        "gridPos": place,
        "targets": [_target(query, index, panel) for index, query in enumerate(panel.queries)],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": list(_overrides(panel))},
        "options": _tile_options() if panel.kind == "stat" else _chart_options(),
    }


def _description(panel: Panel, runbooks: str) -> str:
    if not panel.causes:
        return panel.answers
    if runbooks:
        pages = ", ".join(f"[{cause}]({runbooks}{cause}.md)" for cause in panel.causes)
        return f"{panel.answers}\n\nRunbook: {pages}"
    pages = ", ".join(f"`vllmdoctor explain {cause}`" for cause in panel.causes)
    return f"{panel.answers}\n\nRunbook: {pages}"


def _target(query: Query, index: int, panel: Panel) -> _Json:
    target: _Json = {
        "refId": chr(ord("A") + index),
        "datasource": _STORE,
        "editorMode": "code",
        "expr": query.expr,
        "legendFormat": query.legend,
        "range": panel.kind != "stat",
        "instant": panel.kind == "stat",
    }
    return target


def _defaults(panel: Panel) -> _Json:
    shown: _Json = {
        "unit": panel.unit,
        "color": {"mode": "thresholds" if panel.kind == "stat" else "palette-classic"},
        "thresholds": {"mode": "absolute", "steps": list(_steps(panel.limits))},
    }
    if panel.least is not None:
        shown["min"] = panel.least
    if panel.most is not None:
        shown["max"] = panel.most
    if panel.decimals is not None:
        shown["decimals"] = panel.decimals
    if panel.kind == "timeseries":
        shown["custom"] = {
            "drawStyle": "line",
            "lineWidth": 1,
            "fillOpacity": 8,
            "showPoints": "never",
            "spanNulls": False,
            "thresholdsStyle": {"mode": "dashed" if panel.limits else "off"},
        }
    return shown


def _steps(limits: Sequence[Limit]) -> Iterator[_Json]:
    """Colours from the lowest value up; the first has no value."""
    rising = [each for each in limits if each.above]
    falling = sorted((each for each in limits if not each.above), key=lambda each: each.value)
    yield {"color": _COLORS[falling[0].severity] if falling else "green", "value": None}
    for each in falling:
        yield {"color": "green", "value": each.value}
    for each in sorted(rising, key=lambda each: each.value):
        yield {"color": _COLORS[each.severity], "value": each.value}


def _overrides(panel: Panel) -> Iterator[_Json]:
    """What is there to compare is thin, dashed and unfilled."""
    for index, query in enumerate(panel.queries):
        if query.faint and panel.kind == "timeseries":
            yield {
                "matcher": {"id": "byFrameRefID", "options": chr(ord("A") + index)},
                "properties": [
                    {"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [8, 8]}},
                    {"id": "custom.fillOpacity", "value": 0},
                ],
            }


def _chart_options() -> _Json:
    return {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }


def _tile_options() -> _Json:
    return {
        "colorMode": "value",
        "graphMode": "none",
        "justifyMode": "auto",
        "orientation": "auto",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "textMode": "value",
        "wideLayout": True,
        "showPercentChange": False,
        "percentChangeColorMode": "standard",
    }


def _note(note: Note) -> _Json:
    return {
        "name": note.name,
        "datasource": _STORE,
        "enable": True,
        "hide": False,
        "iconColor": note.color,
        "target": {"expr": note.expr, "interval": "60s", "refId": "Anno"},
        "titleFormat": note.title,
        "textFormat": note.text,
        "useValueForTime": False,
    }


def _store() -> _Json:
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "refresh": 1,
        "hide": 0,
        "includeAll": False,
        "multi": False,
        "options": [],
        "regex": "",
    }


def _variable(each: Variable) -> _Json:
    chosen: _Json = {
        "name": each.name,
        "label": each.title,
        "type": "query",
        "datasource": _STORE,
        "definition": each.query,
        "query": {"query": each.query, "refId": f"variable-{each.name}"},
        "refresh": 2,
        "sort": 1,
        "hide": 0,
        "includeAll": True,
        "multi": True,
        "options": [],
        "regex": "",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }
    if each.name != "server":  # all servers are those in the list: exporters know others besides
        chosen["allValue"] = ".*"
    return chosen
