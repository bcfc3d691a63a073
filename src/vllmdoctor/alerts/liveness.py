"""Does it move, and is it there: stalls, restarts, replicas."""

from vllmdoctor.alerts.basis import WHO, Basis, limit_of
from vllmdoctor.alerts.nouns import Told, alert
from vllmdoctor.alerts.records import DEMAND, ENGINES
from vllmdoctor.promql import PER_ENGINE
from vllmdoctor.rules.stall import KNOCKS

_STALL, _RESTART, _REPLICA = "stall", "restart", "replica-loss"
NOT_ENGINE = f"ignoring ({', '.join(PER_ENGINE)})"
"""The series of a scrape target have the labels of its engines' series but for these."""
SILENT = f"{limit_of('replica-loss.silent').value / 60:g}m"
CARRIED = 1.1  # times its usual demand: the others carry what a lost replica had


@alert(
    "VLLMStall",
    _STALL,
    "critical",
    wait="1m",
    means="requests are there, and no token is made and none finishes for 3 min",
)
def stall(on: Basis) -> Told:
    """Counters decide: gauges freeze when the engine hangs."""
    m = on.metrics
    inside = " + ".join(m.gauge(s, "min", "3m") for s in ("requests_running", "requests_waiting"))
    moved = ("generation_tokens", "prompt_tokens", "requests_finished")
    made = " + ".join(m.increase(s, "3m") for s in moved)
    return Told(
        f"({inside}) > 0\nand ({made}) == 0",
        f"{WHO} has work and makes no progress",
        "{{ $value | humanize }} requests are inside, and no token was made and none finished in 3 min "
        "(limit: one of them).",
    )


@alert(
    "VLLMAnswersWithoutTokens",
    _STALL,
    "critical",
    wait="2m",
    means="HTTP requests end although no token is made: a wedge in which the gauges read 0",
)
def without_tokens(on: Basis) -> Told:
    """HTTP requests that end are a sign of work that gauges need not show."""
    m = on.metrics
    served = m.increase(
        "http_requests", "10m", only=('handler=~"/v1/.+"', 'handler!="/v1/models"', 'status!~"4.*"')
    )
    made = " + ".join(m.increase(s, "10m") for s in ("generation_tokens", "prompt_tokens"))
    return Told(
        f"{served} >= {KNOCKS}\nunless {NOT_ENGINE} ({made}) > 0\n"
        f"and {NOT_ENGINE} {m.gauge('requests_running')}",
        f"{WHO}: HTTP requests end, but no token is made",
        f"{{{{ $value | humanize }}}} requests ended in 10 min (limit: {KNOCKS}) without a single token.",
    )


@alert(
    "VLLMAdmissionStopped",
    _STALL,
    "critical",
    wait="5m",
    linger="5m",
    means="requests are put off although slots and blocks are free (vLLM 0.20 and newer)",
    limits=tuple(f"{_STALL}.{n}" for n in ("many", "deferred", "free", "few")),
)
def admission(on: Basis) -> Told:
    """The scheduler admits nobody."""
    m = on.metrics
    waiting, deferred, running = (
        m.gauge(s, "avg", "5m") for s in ("requests_waiting", "requests_waiting_deferred", "requests_running")
    )
    return Told(
        f"{deferred} / ({waiting} >= {on.text(f'{_STALL}.many')}) >= {on.text(f'{_STALL}.deferred')}\n"
        f"and {m.gauge('kv_cache_usage', 'avg', '5m')} < {on.text(f'{_STALL}.free')}\n"
        f"and {running} <= {on.text(f'{_STALL}.few')} * {m.gauge('requests_running', 'max', '6h')}",
        f"{WHO} admits nobody although there is room",
        "{{ $value | humanizePercentage }} of those who wait are deferred (limit: "
        f"{on.percent(f'{_STALL}.deferred')}), and the KV pool has room.",
    )


@alert(
    "VLLMRestarted",
    _RESTART,
    "info",
    wait="0m",
    means="the counters began anew: caches are cold, rates of windows look low",
    limits=(f"{_RESTART}.restarts",),
)
def restarted(on: Basis) -> Told:
    """One is worth knowing."""
    return _restarts(on, "30m", "30 min", "restarts", f"{WHO} restarted")


@alert(
    "VLLMRestartLoop",
    _RESTART,
    "warning",
    wait="0m",
    means="restarts in a day",
    limits=(f"{_RESTART}.loop",),
)
def restart_loop(on: Basis) -> Told:
    """A third one in a day is no maintenance."""
    return _restarts(on, "1d", "a day", "loop", f"{WHO} restarts again and again")


def _restarts(on: Basis, window: str, words: str, limit: str, summary: str) -> Told:
    key = f"{_RESTART}.{limit}"
    return Told(
        f"{on.metrics.resets('generation_tokens', window)} >= {on.text(key)}",
        summary,
        f"{{{{ $value | humanize }}}} restarts in {words} (limit: {on.text(key)}).",
    )


@alert(
    "VLLMReplicasMissing",
    _REPLICA,
    "critical",
    wait=SILENT,
    means="the Deployment or StatefulSet has fewer replicas than it should",
    limits=(f"{_REPLICA}.lost",),
)
def replicas_missing(on: Basis) -> Told:
    """As the cluster counts them."""
    m = on.metrics
    running = m.gauge("requests_running", "last", "1h")
    of_vllm = (
        f'label_replace({running}, "deployment", "$1", "pod", "(.+)-[a-z0-9]+-[a-z0-9]{{5}}") '
        f'or label_replace({running}, "statefulset", "$1", "pod", "(.+)-[0-9]+")'
    )
    return Told(
        f"{m.gauge('replicas_desired')} - {m.gauge('replicas_available')} >= {on.text(f'{_REPLICA}.lost')}\n"
        f"and on (namespace, deployment, statefulset) ({of_vllm})",
        "{{ $labels.namespace }}/{{ $labels.deployment }}{{ $labels.statefulset }}: replicas are missing",
        f"{{{{ $value | humanize }}}} replicas do not serve (limit: {on.text(f'{_REPLICA}.lost')}).",
    )


@alert(
    "VLLMReplicaGone",
    _REPLICA,
    "critical",
    wait="15m",
    means="fewer engines than usual in 6 h show metrics, and each has more to do",
    limits=(f"{_REPLICA}.lost",),
)
def replica_gone(on: Basis) -> Told:
    """As the scrapes count them; a scaling down that follows the demand is no loss."""
    return Told(
        f"quantile_over_time(0.5, {ENGINES}[6h]) - {ENGINES} >= {on.text(f'{_REPLICA}.lost')}\n"
        f"and {DEMAND} >= {CARRIED:g} * quantile_over_time(0.5, {DEMAND}[6h])",
        "{{ $labels.namespace }} {{ $labels.job }}: a replica is gone, the others carry its load",
        "{{ $value | humanize }} engines fewer than usual in the last 6 h (limit: "
        f"{on.text(f'{_REPLICA}.lost')}), and each that is left has {100 * (CARRIED - 1):.0f} % more to do.",
    )


@alert(
    "VLLMTargetDown",
    _REPLICA,
    "critical",
    wait=SILENT,
    means="a server that showed metrics within the hour does not answer its scrapes",
)
def target_down(on: Basis) -> Told:
    """Gone, starting anew, or hanging."""
    m = on.metrics
    return Told(
        f"{m.gauge('scrape_up')} == 0\nand {NOT_ENGINE} {m.gauge('requests_running', 'last', '1h')}",
        f"{WHO} does not answer its scrapes",
        f"up is {{{{ $value }}}} (limit: 1) for {SILENT}: the server is gone, starts anew or hangs.",
    )


LIVENESS = (
    stall,
    without_tokens,
    admission,
    restarted,
    restart_loop,
    replicas_missing,
    replica_gone,
    target_down,
)
