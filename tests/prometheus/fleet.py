"""Small histories written by hand: some pods, a rolled deployment, exporters beside them."""

from collections.abc import Iterator

START = 1_760_000_400.0  # a multiple of 300, so that steps fall on it
MINUTES = 40
EVERY = 15.0
TIMES = [START + EVERY * n for n in range(int(MINUTES * 60 / EVERY) + 1)]
END = TIMES[-1]
RESTART = START + 20 * 60


def server(labels: str, born: float = START, gone: float = END, rate: float = 4.0) -> Iterator[str]:
    """One server's series: a counter of `rate`/s that begins anew at RESTART, gauges, one histogram."""
    model = f'engine="0",model_name="m",{labels}'
    for t in TIMES:
        if not born <= t <= gone:
            continue
        age = t - (RESTART if born < RESTART <= t else born)
        made = round(rate * age)
        bound = RESTART if born < RESTART <= t else born
        at = f"{t:.3f}"
        yield f"vllm:num_requests_running{{{model}}} {3 + int(t / EVERY) % 2} {at}"
        yield f"vllm:num_requests_waiting{{{model}}} 0 {at}"
        yield f"vllm:kv_cache_usage_perc{{{model}}} 0.25 {at}"
        for reason, count in (("capacity", 0), ("deferred", 7)):
            yield f'vllm:num_requests_waiting_by_reason{{reason="{reason}",{model}}} {count} {at}'
        yield f"vllm:generation_tokens_total{{{model}}} {made} {at}"
        yield f"vllm:prompt_tokens_total{{{model}}} {2 * made} {at}"
        for reason, share in (("stop", 3), ("length", 1)):
            ended = f'finished_reason="{reason}",{model}'
            yield f"vllm:request_success_total{{{ended}}} {made // 40 * share} {at}"
        for le, share in (("0.1", 1), ("1.0", 3), ("+Inf", 4)):
            yield f'vllm:time_to_first_token_seconds_bucket{{le="{le}",{model}}} {made // 40 * share} {at}'
        yield f"vllm:time_to_first_token_seconds_sum{{{model}}} {made / 80} {at}"
        yield f"vllm:time_to_first_token_seconds_count{{{model}}} {made // 10} {at}"
        yield f'vllm:cache_config_info{{block_size="16",num_gpu_blocks="1000",engine="0",{labels}}} 1 {at}'
        yield f"process_start_time_seconds{{{labels}}} {bound:.0f} {at}"
        yield f"process_resident_memory_bytes{{{labels}}} 1e9 {at}"
        for status in ("2xx", "4xx"):
            path = f'handler="/v1/chat/completions",method="POST",status="{status}"'
            yield f"http_requests_total{{{path},{labels}}} {made // 10} {at}"


def pod(name: str, address: str, namespace: str = "inference", more: str = "") -> str:
    """The labels that service discovery gives the series of a pod."""
    return f'instance="{address}",job="vllm",namespace="{namespace}",pod="{name}"{more}'


def around(pods: dict[str, float], namespace: str) -> Iterator[str]:
    """cAdvisor, kube-state-metrics and DCGM for pods that live until a time."""
    for t in TIMES:
        at = f"{t:.3f}"
        for name, gone in pods.items():
            if t > gone:
                continue
            where = f'namespace="{namespace}",pod="{name}"'
            for container, size in (("", 9), ("POD", 1), ("vllm", 5), ("sidecar", 3)):
                yield (
                    f'container_memory_working_set_bytes{{container="{container}",instance="node-1:10250",'
                    f'job="cadvisor",{where}}} {size}e9 {at}'
                )
            yield (
                f'kube_pod_container_status_restarts_total{{container="vllm",instance="10.9.9.9:8080",job="ksm",'
                f'namespace="monitoring",pod="ksm-0",exported_namespace="{namespace}",'
                f'exported_pod="{name}"}} 1 {at}'
            )
            for gpu in ("0", "1"):
                yield (
                    f'DCGM_FI_DEV_GPU_TEMP{{gpu="{gpu}",instance="10.9.9.8:9400",job="dcgm",namespace="gpu",'
                    f'pod="dcgm-0",exported_namespace="{namespace}",exported_pod="{name}"}} 6{gpu} {at}'
                )
        yield (
            f'kube_deployment_spec_replicas{{deployment="chat",instance="10.9.9.9:8080",job="ksm",'
            f'namespace="{namespace}"}} 3 {at}'
        )
        yield (
            f'kube_deployment_status_replicas_available{{deployment="chat",instance="10.9.9.9:8080",job="ksm",'
            f'namespace="{namespace}"}} 2 {at}'
        )


OLD = {f"chat-6c5d9f7b8d-{end}": f"10.0.1.{n}:8000" for n, end in enumerate(("aaaaa", "bbbbb", "ccccc"), 1)}
NEW = {f"chat-7f8b4c6d5f-{end}": f"10.0.2.{n}:8000" for n, end in enumerate(("ddddd", "eeeee", "fffff"), 1)}


def text() -> Iterator[str]:
    """All of it: namespaces are cases, and do not know of each other."""
    # a deployment that was rolled half-way
    for name, address in OLD.items():
        yield from server(pod(name, address, "rolled"), gone=RESTART)
    for name, address in NEW.items():
        yield from server(pod(name, address, "rolled"), born=RESTART + 60)
    yield from around(dict.fromkeys(OLD, RESTART) | dict.fromkeys(NEW, END), "rolled")
    # two jobs scrape the same pod
    for job in ("vllm", "vllm-again"):
        labels = pod("twice-0", "10.0.3.1:8000", "copies").replace('job="vllm"', f'job="{job}"')
        yield from server(labels)
    # names after a relabelling, once with a prefix and once without a colon
    for line in server(pod("short-0", "10.0.4.1:8000", "renamed")):
        yield line.replace("vllm:", "vllm_", 1)
    for line in server(pod("house-0", "10.0.5.1:8000", "prefixed")):
        yield line.replace("vllm:", "acme_vllm_", 1) if line.startswith("vllm:") else line
    # a pod name in two namespaces, and no pod at all beside a GPU on the same host
    for namespace in ("blue", "green"):
        yield from server(pod("same-0", f"10.0.6.{len(namespace)}:8000", namespace, ',team="both"'))
    yield from server('instance="10.0.7.1:8000",job="vllm",team="static"')
    for t in TIMES:
        yield f'DCGM_FI_DEV_GPU_TEMP{{gpu="0",instance="10.0.7.1:9400",job="dcgm"}} 77 {t:.3f}'


def write(path: str) -> None:
    """The history as OpenMetrics text, with what each family is."""
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in text())
        file.write("# EOF\n")
