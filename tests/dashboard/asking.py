"""A dashboard's expressions, and a real Prometheus asked for them as Grafana would."""

import json
import re
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any


def expressions(dashboard: str) -> Iterator[tuple[str, str]]:
    """(where, expression) of each query and each mark."""
    document = json.loads(dashboard)
    for note in document["annotations"]["list"]:
        yield f"mark {note['name']}", note["target"]["expr"]
    for panel in document["panels"]:
        for target in panel.get("targets", ()):
            yield f"{panel['title']}, {target['refId']}", target["expr"]


def filled(expression: str, namespace: str, pod: str = ".+") -> str:
    """The expression with values for Grafana's variables."""
    values = {"namespace": namespace, "model": ".*", "server": pod, "engine": ".*", "__rate_interval": "2m"}
    return re.sub(r"\$(\w+)", lambda found: values[found[1]], expression)


def asked(url: str, path: str, **parameters: str | float) -> Any:
    """The data of an answer of Prometheus; its own words where it refuses."""
    body = urllib.parse.urlencode(parameters).encode()
    try:
        with urllib.request.urlopen(f"{url}/api/v1/{path}", body, timeout=30) as answer:
            return json.loads(answer.read())["data"]
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{error.read().decode()}: {parameters}") from None


def values(url: str, expression: str, start: float, end: float, step: float = 30.0) -> list[float]:
    """Every number that a panel over this time would draw."""
    data = asked(url, "query_range", query=expression, start=start, end=end, step=step)
    found = (float(value) for series in data["result"] for _, value in series["values"])
    return [value for value in found if value == value]
