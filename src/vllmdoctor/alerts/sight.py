"""What cannot be seen: absence must not hide, and must not look like health."""

from vllmdoctor.alerts.basis import WHO, Basis
from vllmdoctor.alerts.liveness import NOT_ENGINE
from vllmdoctor.alerts.nouns import Told, alert

_GAPS = "scrape-gaps"
ALWAYS = ("kv_cache_usage", "generation_tokens", "prompt_tokens", "requests_waiting")
"""Signals that every release shows: where one is missing, its name is another."""


@alert(
    "VLLMScrapesMissing",
    _GAPS,
    "info",
    wait="0m",
    means="scrapes that failed in the last hour",
    limits=(f"{_GAPS}.missing",),
)
def scrapes_missing(on: Basis) -> Told:
    """What happened meanwhile is unknown."""
    m = on.metrics
    return Told(
        f"1 - {m.gauge('scrape_up', 'avg', '1h')} >= {on.text(f'{_GAPS}.missing')}\n"
        f"and {NOT_ENGINE} {m.gauge('requests_running', 'last', '1h')}",
        f"{WHO}: scrapes are missing",
        "{{ $value | humanizePercentage }} of the scrapes of the last hour failed (limit: "
        f"{on.percent(f'{_GAPS}.missing')}): what happened meanwhile is unknown.",
    )


@alert(
    "VLLMMetricsAbsent",
    "blind",
    "warning",
    means="no vLLM server shows metrics: the other alerts cannot fire",
)
def absent(on: Basis) -> Told:
    """The one alert that fires on nothing."""
    series = " or ".join(on.metrics.selectors("requests_running"))
    return Told(
        f"absent({series})",
        "no vLLM server shows metrics: none of these alerts can fire",
        "Nothing matches " + series.replace('"', "'") + " (limit: one series).",
    )


@alert(
    "VLLMMetricNamesGone",
    "blind",
    "warning",
    wait="15m",
    means="a metric is gone under every name that these rules know: renamed, or dropped on the way",
)
def names_gone(on: Basis) -> Told:
    """An upgrade that renames a metric must not silence the alerts that read it."""
    m = on.metrics
    running = m.gauge("requests_running")
    return Told(
        "\nor ".join(
            f'label_replace({running} unless {m.gauge(signal)}, "signal", "{signal}", "", "")'
            for signal in ALWAYS
        ),
        f"{WHO} shows {{{{ $labels.signal }}}} under no name that these rules know",
        "An upgrade renamed the metric, or a scrape filter drops it (limit: present). "
        "Write the rules anew: vllmdoctor alerts",
    )


SIGHT = (scrapes_missing, absent, names_gone)
