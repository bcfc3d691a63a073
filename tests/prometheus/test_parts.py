"""The parts of the Prometheus source that need no server: parsing, planning, naming."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vllmdoctor
from vllmdoctor.errors import UsageError
from vllmdoctor.frame import choose_step
from vllmdoctor.promql import one_of
from vllmdoctor.rules import all_rules
from vllmdoctor.signals import SIGNALS
from vllmdoctor.sources.prom import names
from vllmdoctor.sources.prom.matrix import Broken, Envelope, Row, read_matrix
from vllmdoctor.sources.prom.place import place_of
from vllmdoctor.sources.prom.plan import CHEAP_POINTS, Grid, Piece, grids, within
from vllmdoctor.sources.prom.targets import scheme_of, single_copy, targets_of, workload_of
from vllmdoctor.sources.prom.when import parse_moment

RESULT: list[dict[str, Any]] = [
    {"metric": {"__name__": "a", "odd": 'x}]]"\\y'}, "values": [[1795872300, "1"], [1795872315.5, "NaN"]]},
    {"metric": {}, "values": [[1, "+Inf"], [2, "-Inf"], [3, "1e+06"]]},
    {"values": [[1, "2"]], "metric": {"order": "other"}},
    {"metric": {"native": "yes"}, "histograms": [[1, {"count": "1", "buckets": [[0, "1", "2", "3"]]}]]},
    {"metric": {"vector": "yes"}, "value": [5, "6"]},
]
DOCUMENT = {"status": "success", "data": {"resultType": "matrix", "result": RESULT}, "warnings": ["w"]}


def spelled(style: str) -> bytes:
    separators = {"tight": (",", ":"), "spaced": (", ", ": ")}[style]
    return json.dumps(DOCUMENT, separators=separators).encode()


def read(pieces: Iterable[bytes]) -> tuple[list[Row], Envelope]:
    envelope = Envelope()
    return list(read_matrix(pieces, envelope)), envelope


# --- answers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("style", ["tight", "spaced"])
@pytest.mark.parametrize("size", [1, 7, 1 << 16])
def test_an_answer_is_read_in_whatever_pieces_it_comes(style: str, size: int) -> None:
    body = spelled(style)

    rows, envelope = read(body[i : i + size] for i in range(0, len(body), size))

    assert [row.labels for row in rows] == [entry["metric"] for entry in RESULT]
    assert [row.times.tolist() for row in rows] == [[1795872300.0, 1795872315.5], [1, 2, 3], [1], [], [5]]
    np.testing.assert_array_equal(rows[0].values, [1, np.nan])
    assert [row.values.tolist() for row in rows[1:]] == [[np.inf, -np.inf, 1e6], [2], [], [6]]
    assert envelope.fields["warnings"] == ["w"]


def test_an_error_is_no_result_and_says_what_it_says() -> None:
    rows, envelope = read([b'{"status":"error","errorType":"bad_data","error":"no"}'])

    assert (rows, envelope.fields["error"]) == ([], "no")


def test_every_way_of_cutting_an_answer_off_is_noticed() -> None:
    body = spelled("tight")

    for length in range(len(body)):
        with pytest.raises(Broken):
            read([body[:length]])


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'"text"', b'{"data":{"result":[7]}}', b"{}x"])
def test_what_is_no_answer_is_noticed(body: bytes) -> None:
    with pytest.raises(Broken):
        read([body])


def test_a_large_answer_is_read_without_keeping_its_text() -> None:
    series = b'{"metric":{"n":"1"},"values":[' + b",".join(b'[%d,"%d"]' % (t, t) for t in range(2000)) + b"]}"

    def pieces() -> Iterable[bytes]:
        yield b'{"status":"success","data":{"resultType":"matrix","result":['
        for n in range(200):
            yield (b"," if n else b"") + series
        yield b"]}}"

    read_so_far = 0
    for row in read_matrix(pieces(), Envelope()):
        read_so_far += len(row.values)
        assert row.values.base is None  # the times and the text are let go of
    assert read_so_far == 400_000


# --- what is asked for --------------------------------------------------------------------------


ASKED = {
    *(*names.ENGINE_FINE, *names.ENGINE_BUCKETS, *names.ENGINE_MEANS, *names.INSTANCE_FINE),
    *(*names.POD_FINE, *names.GPU_FINE, *names.WORKLOAD_FINE, names.INFO),
}
# what only our own reading of logs, of this host and of its GPUs tells: no Prometheus has it
ELSEWHERE = {
    s.name for s in SIGNALS.values() if all(n.text.startswith(("log:", "host:", "nvml:")) for n in s.names)
}


def test_every_signal_that_a_rule_names_is_asked_for() -> None:
    wanted = {
        signal
        for rule in all_rules()
        for group in (*rule.signals, *rule.helpful)
        for signal in ((group,) if isinstance(group, str) else group)
    }

    assert (wanted & set(SIGNALS)) - ASKED - ELSEWHERE == set()
    assert set(SIGNALS) >= ASKED


def test_every_signal_that_a_measure_reads_is_asked_for() -> None:
    folder = Path(vllmdoctor.__file__).parent
    call = re.compile(
        r"\.(?:gauge|rate|raw|histogram|mean|quantile|buckets|_mix|columns|has|labels)" r'\("(\w+)"'
    )
    read = {
        signal
        for path in (folder / "vitals.py", folder / "symptoms.py", *(folder / "rules").glob("*.py"))
        for signal in call.findall(path.read_text())
    }

    assert len(read) > 15
    assert (read & set(SIGNALS)) - ASKED - ELSEWHERE == set()


def test_names_are_found_in_every_spelling() -> None:
    pattern = re.compile(names.any_name(""))

    for raw in (
        "vllm:num_requests_running",
        "vllm_num_requests_running",
        "ray_vllm_num_requests_running",
        "num_requests_running",
        "time_to_first_token_seconds_bucket",
        "vllm:a_name_nobody_knows_yet",
    ):
        assert pattern.fullmatch(raw), raw
    assert not pattern.fullmatch("node_load1")
    assert names.Spelling("acme_").canonical("acme_vllm_num_requests_running") == "vllm:num_requests_running"


# --- the grid and its pieces --------------------------------------------------------------------


@pytest.mark.parametrize("span", [60, 241, 3600, 6 * 3600, 43_200, 86_400, 7 * 86_400])
@pytest.mark.parametrize("scrape", [1.0, 5.0, 14.0, 15.0, 30.0, 60.0])
def test_every_grid_comes_to_the_bins_of_the_judgement_and_leaves_no_gap(span: int, scrape: float) -> None:
    for grid in list(grids(1_760_000_123, 1_760_000_123 + span, scrape))[:8]:
        assert grid.coarse <= 4 * grid.fine
        assert grid.coarse % grid.fine == 0
        assert grid.fine >= 0.95 * scrape
        assert (grid.start % grid.coarse, grid.end % grid.fine) == (0, 0)
        assert choose_step(span, grid.fine) % grid.coarse == 0


def test_one_server_is_looked_at_closely_and_a_fleet_in_bins() -> None:
    day = (0.0, 86_400.0, 15.0)

    assert within(5_000_000, *day, fine=22, coarse=140) == Grid(0, 86_400, 15, 60)
    fleet = within(5_000_000, *day, fine=22 * 50, coarse=140 * 50)
    assert (fleet.fine, fleet.coarse) == (75, 300)
    huge = within(5_000_000, *day, fine=22 * 1000, coarse=140 * 1000)
    assert huge.points(22 * 1000, 140 * 1000) <= 5_000_000
    assert within(5_000_000, *day, fine=22, coarse=140).points(22, 140) <= CHEAP_POINTS


def piece(**changes: object) -> Piece:
    given = {
        "about": "x",
        "fold": "sum",
        "names": ("vllm:a", "vllm:b"),
        "by": ("instance", "engine"),
        "matchers": ('namespace="n"',),
        "label": "instance",
        "values": ("10.0.0.1:8000", "10.0.0.2:8000"),
        "fresh_s": 33.0,
        "start": 0.0,
        "end": 3600.0,
        "step": 15.0,
    }
    return Piece(**(given | changes))  # type: ignore[arg-type]


def test_a_piece_asks_for_the_newest_sample_of_its_servers() -> None:
    assert piece().query == (
        'sum by (__name__,instance,engine) (last_over_time({__name__=~"vllm:a|vllm:b",'
        'instance=~"10\\\\.0\\\\.0\\\\.1:8000|10\\\\.0\\\\.0\\\\.2:8000",namespace="n"}[33000ms]))'
    )


def test_halves_are_by_server_then_by_name_then_by_time_and_lose_no_moment() -> None:
    by_server = piece().halves()
    by_name = by_server[0].halves()
    by_time = by_name[0].halves()

    assert [half.values for half in by_server] == [("10.0.0.1:8000",), ("10.0.0.2:8000",)]
    assert [half.names for half in by_name] == [("vllm:a",), ("vllm:b",)]
    assert [(half.start, half.end) for half in by_time] == [(0, 1800), (1815, 3600)]
    assert piece(values=("x",), names=("a",), end=60.0).halves() == ()


def test_a_fleet_is_asked_in_batches_that_no_server_refuses() -> None:
    fleet = piece(values=tuple(f"10.0.0.{n}:8000" for n in range(200)), end=86_400.0, step=75.0)

    batches = fleet.batches(12)

    assert sum(len(batch.values) for batch in batches) == 200
    assert all(len(batch.values) * 12 * 1153 <= 150_000 for batch in batches)


def test_values_that_look_like_expressions_stand_for_themselves() -> None:
    assert one_of("pod", ["a.b"]) == 'pod="a.b"'
    inside = one_of("pod", ["a.b", 'c"d\\e|f']).partition('"')[2][:-1]
    pattern = re.compile(json.loads(f'"{inside}"'))
    assert all(pattern.fullmatch(name) for name in ("a.b", 'c"d\\e|f'))
    assert not pattern.fullmatch("axb")


# --- servers ------------------------------------------------------------------------------------


def test_servers_in_one_pod_are_told_apart_by_their_ports_and_a_moved_pod_is_one() -> None:
    found = [
        {"instance": "10.0.0.1:8000", "pod": "two-0"},
        {"instance": "10.0.0.1:8001", "pod": "two-0"},
        {"instance": "10.0.0.2:8000", "pod": "moved-0"},
        {"instance": "10.0.0.9:8000", "pod": "moved-0"},
        {"instance": "host:8000"},
    ]

    targets = targets_of(found, scheme_of(found))

    assert sorted(t.name for t in targets.values()) == [
        "host:8000",
        "moved-0",
        "moved-0",
        "two-0:8000",
        "two-0:8001",
    ]


def test_older_service_discovery_labels_serve_as_well() -> None:
    found = [{"instance": "i", "kubernetes_pod_name": "p", "kubernetes_namespace": "n"}]

    (target,) = targets_of(found, scheme_of(found)).values()

    assert (target.name, target.namespace) == ("p", "n")


def test_copies_are_told_from_servers_that_only_look_alike() -> None:
    one = {"instance": "i", "engine": "0", "model_name": "m"}
    scheme = scheme_of([one])

    assert single_copy([one, {**one, "engine": "1"}], scheme) == ("", "")
    copies = [{**one, "prometheus_replica": "a"}, {**one, "prometheus_replica": "b"}]
    assert single_copy(copies, scheme) == ("prometheus_replica", "b")
    assert single_copy([{**one, "version": "1"}, {**one, "version": "2"}], scheme) == ("", "")


@pytest.mark.parametrize(
    ("pod", "workloads"),
    [
        ("chat-7f8b4c6d5f-ddddd", {"chat"}),
        ("my-chat-v2-7f8b4c6d5f-x2z9k", {"my-chat-v2"}),
        ("chat-0", {"chat"}),
        ("standalone", set()),
    ],
)
def test_a_pods_name_tells_its_workload(pod: str, workloads: set[str]) -> None:
    assert workload_of(pod) == workloads


# --- what people write --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1760000400", 1760000400.0),
        ("2025-10-09T09:00", 1760000400.0),
        ("2025-10-09 11:00:00+02:00", 1760000400.0),
        ("2025-10-09T09:00:00Z", 1760000400.0),
    ],
)
def test_moments_are_read_as_people_write_them(text: str, seconds: float) -> None:
    assert parse_moment(text) == seconds


@pytest.mark.parametrize("text", ["yesterday", "", "1760000400000", "2025-13-01", "nan"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a time"):
        parse_moment(text)


@pytest.mark.parametrize(
    ("target", "base"),
    [
        ("prom+http://h:9090", "http://h:9090"),
        ("prom+https://u:p@h/prometheus/", "https://h/prometheus"),
        ("prom+http://h:9090/graph", "http://h:9090"),
        ("prom+http://h/select/0/prometheus/api/v1/", "http://h/select/0/prometheus"),
        ("prom+http://[::1]:9090", "http://[::1]:9090"),
    ],
)
def test_an_address_keeps_its_prefix_and_loses_its_login(target: str, base: str) -> None:
    place = place_of(target)

    assert (place.base, place.shown) == (base, base)
    assert place.user == (("u", "p") if "u:p" in target else None)
