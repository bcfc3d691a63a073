"""Is it there and does it move: stalls, restarts, replicas, scrapes, names."""

from collections.abc import Iterator

from vllmdoctor.alerts.basis import WHO, Basis
from vllmdoctor.alerts.nouns import Alert
from vllmdoctor.alerts.records import DEMAND, ENGINES
from vllmdoctor.promql import PER_ENGINE
from vllmdoctor.rules.stall import KNOCKS

TARGET = "{{ $labels.instance }}"
NOT_ENGINE = f"ignoring ({', '.join(PER_ENGINE)})"


def liveness(on: Basis) -> Iterator[Alert]:
    """Alerts on servers that stand still or are gone, and on numbers that are."""
    yield from _stall(on)
    yield from _restart(on)
    yield from _replicas(on)
    yield from _scrapes(on)


def _stall(on: Basis) -> Iterator[Alert]:
    m, slug = on.metrics, "stall"
    made = " + ".join(
        m.increase(s, "3m") for s in ("generation_tokens", "prompt_tokens", "requests_finished")
    )
    inside = " + ".join(m.gauge(s, "min", "3m") for s in ("requests_running", "requests_waiting"))
    yield Alert(
        "VLLMStall",
        slug,
        "critical",
        f"({inside}) > 0\nand ({made}) == 0",
        "1m",
        f"{WHO} has work and makes no progress",
        "{{ $value | humanize }} requests are in the engine, and no token was made and none finished for 3 min "
        "(limit: 0 tokens).",
        "requests are there and no counter moves",
        (f"{slug}.still",),
    )
    http = m.selectors("http_requests", window="10m")[0].replace(
        "[10m]", ""
    )
    served = _with(http, 'handler=~"/v1/.*"', 'handler!="/v1/models"', 'status!~"4.*"')
    made10 = " + ".join(m.increase(s, "10m") for s in ("generation_tokens", "prompt_tokens"))
    yield Alert(
        "VLLMAnswersWithoutTokens",
        slug,
        "critical",
        f"sum without (handler, method, status) (increase({served}[10m])) >= {KNOCKS}\n"
        f"unless {NOT_ENGINE} ({made10}) > 0\nand {NOT_ENGINE} {m.gauge('requests_running')}",
        "2m",
        f"{TARGET}: HTTP requests end, but no token is made",
        "{{ $value | humanize }} requests ended in 10 min (limit: "
        f"{KNOCKS}) without a single token. The gauges may read 0 in such a wedge.",
        "HTTP requests end although no token is made",
    )
    waiting = m.gauge("requests_waiting", "avg", "5m")
    deferred = m.gauge("requests_waiting_deferred", "avg", "5m")
    running = m.gauge("requests_running", "avg", "5m")
    most = m.gauge("requests_running", "max", "6h")
    yield Alert(
        "VLLMAdmissionStopped",
        slug,
        "critical",
        f"{deferred} / ({waiting} >= {on.text(f'{slug}.many')}) >= {on.text(f'{slug}.deferred')}\n"
        f"and {m.gauge('kv_cache_usage', 'avg', '5m')} < {on.text(f'{slug}.free')}\n"
        f"and {running} <= {on.text(f'{slug}.few')} * {most}",
        "5m",
        f"{WHO} admits nobody although there is room",
        "{{ $value | humanizePercentage }} of those who wait are deferred (limit: "
        f"{on.percent(f'{slug}.deferred')}), and the pool is half empty.",
        "requests are put off although slots and blocks are free",
        tuple(f"{slug}.{n}" for n in ("many", "deferred", "free", "few")),
        "5m",
    )


def _with(selector: str, *matchers: str) -> str:
    """A selector with more matchers."""
    head, brace, inside = selector.partition("{")
    kept = inside.removesuffix("}") + "," if brace and inside != "}" else ""
    return f"{head}{{{kept}{','.join(matchers)}}}"


def _restart(on: Basis) -> Iterator[Alert]:
    m = on.metrics
    made = m.selectors("generation_tokens")[0]
    yield Alert(
        "VLLMRestarted",
        "restart",
        "info",
        f"resets({made}[30m]) >= {on.text('restart.restarts')}",
        "0m",
        f"{WHO} restarted",
        "{{ $value | humanize }} restarts in 30 min (limit: "
        f"{on.text('restart.restarts')}): the counters began anew, caches are cold.",
        "the counters began anew",
        ("restart.restarts",),
    )
    yield Alert(
        "VLLMRestartLoop",
        "restart",
        "warning",
        f"resets({made}[1d]) >= {on.text('restart.loop')}",
        "0m",
        f"{WHO} restarts again and again",
        "{{ $value | humanize }} restarts in a day (limit: " f"{on.text('restart.loop')}).",
        "restarts in a day",
        ("restart.loop",),
    )


def _replicas(on: Basis) -> Iterator[Alert]:
    m, slug = on.metrics, "replica-loss"
    silent = f"{on.limit(f'{slug}.silent') / 60:g}m"
    running = m.gauge("requests_running")
    workloads = (
        f'label_replace({running}, "deployment", "$1", "pod", "(.+)-[a-z0-9]+-[a-z0-9]{{5}}") '
        f'or label_replace({running}, "statefulset", "$1", "pod", "(.+)-[0-9]+")'
    )
    yield Alert(
        "VLLMReplicasMissing",
        slug,
        "critical",
        f"{m.gauge('replicas_desired')} - {m.gauge('replicas_available')} >= {on.text(f'{slug}.lost')}\n"
        f"and on (namespace, deployment, statefulset) ({workloads})",
        silent,
        "{{ $labels.namespace }}/{{ $labels.deployment }}{{ $labels.statefulset }}: replicas are missing",
        "{{ $value | humanize }} replicas do not serve (limit: "
        f"{on.text(f'{slug}.lost')}).",
        "the workload has fewer replicas than it should",
        (f"{slug}.lost", f"{slug}.silent"),
    )
    yield Alert(
        "VLLMReplicaGone",
        slug,
        "critical",
        f"quantile_over_time(0.5, {ENGINES}[6h]) - {ENGINES} >= {on.text(f'{slug}.lost')}\n"
        f"and {DEMAND} >= 0.8 * ({DEMAND} offset 1h)",
        silent,
        "{{ $labels.namespace }} {{ $labels.job }}: a replica is gone while as much arrives as before",
        "{{ $value | humanize }} engines fewer than usual in the last 6 h (limit: "
        f"{on.text(f'{slug}.lost')}); the others carry their load.",
        "fewer engines than usual while the demand is as before",
        (f"{slug}.lost", f"{slug}.silent"),
    )
    up = m.gauge("scrape_up")
    seen = m.gauge("requests_running", "last", "1h")
    yield Alert(
        "VLLMTargetDown",
        slug,
        "critical",
        f"{up} == 0\nand {NOT_ENGINE} {seen}",
        silent,
        f"{TARGET} does not answer its scrapes",
        f"up is {{{{ $value }}}} (limit: 1) for {silent}: the server is gone, restarts or hangs.",
        "a vLLM target that does not answer",
        (f"{slug}.silent",),
    )


def _scrapes(on: Basis) -> Iterator[Alert]:
    m, slug = on.metrics, "scrape-gaps"
    up = m.gauge("scrape_up", "avg", "1h")
    seen = m.gauge("requests_running", "last", "1h")
    yield Alert(
        "VLLMScrapesMissing",
        slug,
        "info",
        f"1 - {up} >= {on.text(f'{slug}.missing')}\nand {NOT_ENGINE} {seen}",
        "0m",
        f"{TARGET}: scrapes are missing",
        "{{ $value | humanizePercentage }} of the scrapes of the last hour failed (limit: "
        f"{on.percent(f'{slug}.missing')}): what happened meanwhile is unknown.",
        "scrapes that failed in the last hour",
        (f"{slug}.missing",),
    )
    everything = " or ".join(m.selectors("requests_running"))
    yield Alert(
        "VLLMMetricsAbsent",
        "blind",
        "warning",
        f"absent({everything})",
        "10m",
        "no vLLM server shows metrics: none of these alerts can fire",
        "Nothing matches " + everything.replace('"', "'") + " (limit: one series).",
        "no vLLM metrics at all: the other alerts are blind",
    )
    always = {
        s: m.gauge(s) for s in ("kv_cache_usage", "generation_tokens", "prompt_tokens", "requests_waiting")
    }
    lost = "\nor ".join(f'label_replace({m.gauge("requests_running")} unless {e}, "signal", "{s}", "", "")'
                        for s, e in always.items())  # fmt: skip
    yield Alert(
        "VLLMMetricNamesGone",
        "blind",
        "warning",
        lost,
        "15m",
        f"{WHO} does not show {{{{ $labels.signal }}}} under any name that these alerts know",
        "An upgrade renamed it or a scrape filter drops it: alerts that need it cannot fire (limit: present). "
        "Write the alerts anew for the new version.",
        "a metric that the alerts need is gone: renamed, or dropped on the way",
    )
