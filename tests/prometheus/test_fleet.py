"""Servers are told apart, named, counted once and joined with what stands around them."""

import threading
import time

import numpy as np
import pytest
from tests.prometheus import fleet
from tests.prometheus.conftest import Filled
from tests.prometheus.gateway import Gateway, Reply

from vllmdoctor.engines import frames
from vllmdoctor.exposition import split_series
from vllmdoctor.frame import Frame
from vllmdoctor.recording import Column, Recording
from vllmdoctor.sources import History, Window, gather_targets


def ask(target: str, match: str, **more: object) -> Recording:
    history = History(window_s=3600, at=fleet.END, match=match, **more)  # type: ignore[arg-type]
    return gather_targets([target], Window(history=history))


def column(recording: Recording, instance: str, name: str, **labels: str) -> Column:
    found = [
        c
        for key, c in recording.columns[instance].items()
        if split_series(key)[0] == name and labels.items() <= split_series(key)[1].items()
    ]
    assert len(found) == 1, (name, len(found))
    return found[0]


def frame_of(recording: Recording, instance: str) -> Frame:
    (found,) = [f for f in frames(recording) if f.instance == instance]
    return found


def growth(column: Column) -> float:
    """What a counter grew by, where a fall is a beginning anew."""
    rises = np.diff(column.values)
    return float(np.where(rises < 0, column.values[1:], rises).sum())


def test_pods_of_a_rolled_deployment_are_read_apart_and_judged_as_one_history(each: Filled) -> None:
    recording = ask(each.target, 'namespace="rolled"')

    assert recording.instances == tuple(sorted([*fleet.OLD, *fleet.NEW]))
    for pod in fleet.NEW:
        followed = frame_of(recording, pod)
        assert followed.start < fleet.RESTART - 60
        assert followed.restarts == pytest.approx([fleet.RESTART + 30], abs=45)


def test_counters_keep_their_exact_growth_over_a_restart(each: Filled) -> None:
    recording = ask(each.target, 'namespace="copies"')

    column_of_tokens = column(recording, "twice-0", "vllm:generation_tokens_total")

    # 4 tokens a second over 40 min; the scrape of the restart itself shows 0
    assert growth(column_of_tokens) == pytest.approx(4 * 60 * fleet.MINUTES, abs=4 * 2 * fleet.EVERY)
    assert np.all(column_of_tokens.values == np.rint(column_of_tokens.values))
    assert frame_of(recording, "twice-0").restarts == pytest.approx([fleet.RESTART], abs=30)


def test_series_of_one_engine_are_summed_and_filters_keep_their_labels(each: Filled) -> None:
    recording = ask(each.target, 'namespace="renamed"')

    keys = {split_series(key)[0] for key in recording.columns["short-0"]}
    assert "vllm:request_success_total" in keys  # from vllm_..., as the judge knows it
    done = column(recording, "short-0", "vllm:request_success_total")
    tokens = column(recording, "short-0", "vllm:generation_tokens_total")
    assert done.values[-1] == tokens.values[-1] // 40 * 4
    labels = {
        tuple(sorted(split_series(key)[1].items() & {("status", "2xx"), ("status", "4xx")}))
        for key in recording.columns["short-0"]
        if key.startswith("http_requests_total")
    }
    assert labels == {(("status", "2xx"),), (("status", "4xx"),)}
    frame = frame_of(recording, "short-0")
    assert np.nanmax(frame.gauge("requests_waiting_deferred")) == 7
    assert np.nanmax(frame.gauge("requests_waiting_capacity")) == 0


def test_running_requests_stay_whole_numbers(each: Filled) -> None:
    running = column(ask(each.target, 'namespace="copies"'), "twice-0", "vllm:num_requests_running")

    assert set(running.values.tolist()) == {3.0, 4.0}


def test_a_pod_that_two_jobs_scrape_counts_once_and_that_is_said(each: Filled) -> None:
    recording = ask(each.target, 'namespace="copies"')

    assert recording.instances == ("twice-0",)
    (gap,) = [g for g in recording.gaps if g.what == "copies of the same series"]
    assert gap.why == 'the same servers are there more than once; only job="vllm-again" was read'


def test_a_prefix_from_relabelling_is_taken_off(each: Filled) -> None:
    recording = ask(each.target, 'namespace="prefixed"', prefix="acme_")

    frame = frame_of(recording, "house-0")
    assert {"requests_running", "kv_cache_usage", "ttft", "process_memory"} <= set(frame.names)


def test_one_pod_name_in_two_namespaces_is_two_servers(each: Filled) -> None:
    recording = ask(each.target, 'team="both"')

    assert recording.instances == ("blue/same-0", "green/same-0")


def test_containers_gpus_and_replicas_are_joined_by_pod_and_workload(each: Filled) -> None:
    recording = ask(each.target, 'namespace="rolled"')
    pod = next(iter(fleet.NEW))

    frame = frame_of(recording, pod)

    # the pause container and the pod's own sum are left out, the sidecar is a container of the pod
    assert np.nanmax(frame.gauge("container_memory")) == 8e9
    assert np.nanmax(frame.gauge("gpu_temperature", "max")) == 61
    assert {"container_restarts", "replicas_available", "replicas_desired"} <= set(frame.names)
    assert np.nanmax(frame.gauge("replicas_desired") - frame.gauge("replicas_available")) == 1


def test_a_gpu_without_a_pod_is_joined_by_its_host(each: Filled) -> None:
    recording = ask(each.target, 'team="static"')

    frame = frame_of(recording, "10.0.7.1:8000")
    assert np.nanmax(frame.gauge("gpu_temperature", "max")) == 77


def test_settings_come_once_with_their_labels(each: Filled) -> None:
    frame = frame_of(ask(each.target, 'namespace="copies"'), "twice-0")

    assert frame.labels("cache_config")["num_gpu_blocks"] == "1000"
    assert [x.column.times.size for x in frame.columns("cache_config")] == [1]


def test_a_fleet_is_asked_in_pieces_where_the_server_refuses_large_ones(gateway: Gateway) -> None:
    whole = ask(gateway.target, 'namespace="rolled"')
    refused: list[str] = []
    said = b'{"status":"error","errorType":"execution","error":"query would load too many samples"}'

    def refuse(path: str, query: dict[str, list[str]], reply: Reply) -> Reply:
        text = query.get("query", [""])[0]
        if path.endswith("query_range") and text.count("|") > 4:
            refused.append(text)
            return Reply(422, said)
        return reply

    gateway.spoil = refuse
    recording = ask(gateway.target, 'namespace="rolled"')

    assert refused
    assert recording.gaps == whole.gaps
    assert {i: sorted(of) for i, of in recording.columns.items()} == {
        i: sorted(of) for i, of in whole.columns.items()
    }


def test_no_more_points_are_asked_for_than_allowed(gateway: Gateway) -> None:
    generous = ask(gateway.target, 'namespace="rolled"')
    frugal = ask(gateway.target, 'namespace="rolled"', max_points=4000)

    def points(recording: Recording) -> int:
        return sum(len(c.values) for of in recording.columns.values() for c in of.values())

    assert points(frugal) < 6000 < points(generous)
    (gap,) = [g for g in frugal.gaps if g.what.startswith("what lasts less than")]
    assert gap.hint == "a shorter --window, or a larger --max-points, looks closer"


def test_never_more_than_four_queries_run_at_once(gateway: Gateway) -> None:
    running, most, lock = 0, 0, threading.Lock()

    def count(path: str, query: dict[str, list[str]], reply: Reply) -> Reply:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.03)
        with lock:
            running -= 1
        return reply

    gateway.spoil = count
    ask(gateway.target, 'namespace="rolled"')

    assert 1 < most <= 4
