"""What is marked on every panel, and what can be chosen above them."""

from vllmdoctor.dashboard.nouns import Note, Variable
from vllmdoctor.dashboard.scope import Scope


def notes(on: Scope) -> tuple[Note, ...]:
    """Restarts, told by counters that begin anew, and alerts that fire."""
    made = [on.metrics.selectors("generation_tokens", window="15m", offset=o)[0] for o in ("", "1m")]
    again, before = (f"max by ({on.server}) (resets({each}))" for each in made)
    place = 'namespace=~"$namespace|",' if on.kubernetes else ""
    return (
        Note("Restarts", f"{again} > {before}", "orange", "restart", on.per_server),
        Note(
            "Alerts", f'ALERTS{{{place}alertname=~"(?i)vllm.*",alertstate="firing"}}', "red",
            "{{alertname}}", on.per_server,
        ),
    )  # fmt: skip


def variables(on: Scope) -> tuple[Variable, ...]:
    """Namespace, model, server and engine, each among those of the ones before it."""
    running = next(iter(on.metrics.names["requests_running"])).text
    place = 'namespace=~"$namespace"' if on.kubernetes else ""
    model = ",".join(filter(None, (place, 'model_name=~"$model"')))
    server = f'{model},{on.server}=~"$server"'
    found = [
        Variable("model", "Model", _values(running, place, "model_name")),
        Variable("server", "Pod" if on.kubernetes else "Server", _values(running, model, on.server)),
        Variable("engine", "Engine", _values(running, server, "engine")),
    ]
    if on.kubernetes:
        found.insert(0, Variable("namespace", "Namespace", _values(running, "", "namespace")))
    return tuple(found)


def _values(name: str, matchers: str, label: str) -> str:
    return f"label_values({name}{{{matchers}}}, {label})" if matchers else f"label_values({name}, {label})"
