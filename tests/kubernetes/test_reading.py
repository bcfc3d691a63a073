"""What is read of the pods, by which way, and what is told of those that show nothing."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.kubernetes.apiserver import Cluster, Cut, Ran, failures, kinds, stepped
from tests.kubernetes.conftest import SMI, Doctor

from vllmdoctor.model import Report

TARGET = "k8s://inference/deploy/vllm"


def gaps(report: Report) -> dict[str, str]:
    """What is missing, and why."""
    return {gap.what: f"{gap.origin}: {gap.why}; {gap.hint}" for gap in report.gaps}


# --- several replicas -----------------------------------------------------------------------------


def test_one_sick_replica_of_three_is_named(doctor: Doctor, cluster: Cluster) -> None:
    work = cluster.deployment("vllm", replicas=3)
    for pod in work.pods:
        pod.serve(doctor.vllm(stepped("healthy", step=4)))
    work.pods[1].serve(doctor.vllm(stepped("overload-kv", step=4)))

    report = doctor.judge(TARGET)

    assert (report.verdict, report.primary, report.kind) == ("sick", "overload", "kv-bound")
    found = {o.slug: e.instance for e in report.engines for o in e.outcomes if o.status == "found"}
    assert found["overload"] == work.pods[1].name
    assert len(report.engines) == 3


def test_a_glance_says_how_many_scrapes_a_clean_bill_takes(doctor: Doctor, cluster: Cluster) -> None:
    cluster.deployment("vllm").serve(doctor.vllm(stepped("healthy", step=4)))

    report = doctor.judge(TARGET, ticks=3)

    assert report.verdict == "blind"
    assert report.headline == (
        "Too little was seen to judge this server: 3 scrapes, and nothing stands out; a clean bill takes 6"
    )
    assert doctor.judge(TARGET, ticks=8).verdict == "healthy"


def test_the_first_look_at_several_replicas_waits_for_the_second_scrape_of_each(
    doctor: Doctor, cluster: Cluster
) -> None:
    work = cluster.deployment("vllm", replicas=3)
    for pod in work.pods:
        pod.serve(doctor.vllm(stepped("healthy", step=4)))
    work.pods[2].serve(doctor.vllm(stepped("overload-kv", start=60, step=4)))

    said = doctor.run("diagnose", "deploy/vllm", "--for", "2s", "--every", "1s", "-f", "json")

    assert "watching: 1 scrape, " in said.err
    (first,) = [line for line in said.err.splitlines() if line.startswith("first look")]
    assert first.startswith("first look after two scrapes: ")
    assert "requests wait" in first


def test_a_pod_in_a_crash_loop_is_told_with_its_last_words(doctor: Doctor, cluster: Cluster) -> None:
    work = cluster.deployment("vllm", replicas=2).serve(doctor.vllm(stepped("healthy", step=4)))
    sick = work.pods[0].crash_loop(restarts=7)
    sick.say("INFO loading\nValueError: No available memory for the cache blocks.", previous=True)

    recording = doctor.record(TARGET, ticks=4)

    told = {event.kind: event.text for event in recording.events if event.instance == sick.name}
    assert "No available memory for the cache blocks" in told["last-words"]
    assert "CrashLoopBackOff (7 restarts" in told["not-running"]
    (gap,) = [g for g in recording.gaps if g.origin == sick.name]
    assert "--previous" in gap.hint


def test_a_workload_of_which_no_pod_runs_is_blindness_with_the_reason(
    doctor: Doctor, cluster: Cluster
) -> None:
    work = cluster.deployment("vllm")
    work.pods[0].crash_loop(restarts=7).say("torch.OutOfMemoryError: CUDA out of memory.", previous=True)

    said = doctor.look("deploy/vllm")

    assert said.code == 3
    assert "no pod runs" in said.err
    assert "CUDA out of memory" in said.err


def test_a_pending_pod_says_what_it_waits_for(doctor: Doctor, cluster: Cluster) -> None:
    work = cluster.deployment("vllm", replicas=2).serve(doctor.vllm(stepped("healthy", step=4)))
    waits = work.pods[0].pending("0/3 nodes are available: 3 Insufficient nvidia.com/gpu.")
    cluster.event(waits, "FailedScheduling", "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.")

    recording = doctor.record(TARGET, ticks=4)

    (gap,) = [g for g in recording.gaps if g.origin == waits.name]
    assert "Insufficient nvidia.com/gpu" in gap.why
    assert "1 GPU" in gap.hint
    assert any(e.kind == "failed-scheduling" for e in recording.events)


def test_an_image_that_cannot_be_pulled_is_told(doctor: Doctor, cluster: Cluster) -> None:
    cluster.deployment("vllm").pods[0].waiting("ImagePullBackOff", 'Back-off pulling image "vllm:typo"')

    said = doctor.look("deploy/vllm")

    assert said.code == 3
    assert "ImagePullBackOff" in said.err
    assert "vllm:typo" in said.err


def test_a_container_that_ran_out_of_memory_is_an_event_with_its_limit(
    doctor: Doctor, cluster: Cluster
) -> None:
    work = cluster.deployment("vllm", memory="48Gi").serve(doctor.vllm())
    work.pods[0].killed(restarts=2)

    recording = doctor.record(TARGET, ticks=2)

    (event,) = [e for e in recording.events if e.kind == "oom-killed"]
    assert "2 restarts" in event.text
    assert "48Gi" in event.text


def test_a_pod_that_is_deleted_meanwhile_is_an_event_and_the_others_are_judged(
    doctor: Doctor, cluster: Cluster
) -> None:
    work = cluster.deployment("vllm", replicas=2)
    healthy, goes = stepped("healthy", step=4), work.pods[1]
    work.pods[0].serve(doctor.vllm(healthy))
    looks = [0]

    def until_deleted() -> str:
        looks[0] += 1
        if looks[0] == 10:
            cluster.delete(goes)
        return healthy()

    goes.serve(doctor.vllm(until_deleted))
    recording = doctor.record(TARGET, ticks=20)

    assert [e.instance for e in recording.events if e.kind == "pod-gone"] == [goes.name]
    assert len(next(iter(recording.columns[work.pods[0].name].values())).times) == 20


def test_metrics_that_are_switched_off_are_told_by_the_flag(doctor: Doctor, cluster: Cluster) -> None:
    cluster.deployment("vllm").serve(doctor.vllm(path="/elsewhere"))

    said = doctor.look("deploy/vllm")

    assert said.code == 3
    assert "404" in said.err
    assert "--disable-log-stats" in said.err


# --- by which way ---------------------------------------------------------------------------------


def test_the_usual_way_is_the_proxy_and_no_stream_is_opened(doctor: Doctor, cluster: Cluster) -> None:
    cluster.deployment("vllm", replicas=2).serve(doctor.vllm())

    doctor.record(TARGET, ticks=3)

    assert len(doctor.asked("pods/proxy")) >= 6
    assert not doctor.asked("pods/portforward")
    assert not doctor.asked("pods/exec")


def test_where_the_proxy_is_forbidden_a_port_forward_serves(doctor: Doctor, cluster: Cluster) -> None:
    cluster.deployment("vllm", replicas=2).serve(doctor.vllm())
    doctor.allowed("pods", "port-forward")

    recording = doctor.record(TARGET, ticks=3)

    assert sum(any("vllm:" in key for key in of) for of in recording.columns.values()) == 2
    (gap,) = [g for g in recording.gaps if "port-forward was used" in g.why]
    assert "pods/proxy" in gap.why
    # the refusal is learnt once, and not asked for again at each scrape
    assert len(doctor.asked("pods/proxy")) <= 4


def test_where_neither_way_is_allowed_one_line_says_what_is_missing(doctor: Doctor, cluster: Cluster) -> None:
    cluster.deployment("vllm", replicas=2).serve(doctor.vllm())
    doctor.allowed("pods")

    said = doctor.look("deploy/vllm")

    assert said.code == 3
    assert "pods/proxy" in said.err
    assert "pods/portforward" in said.err
    assert "vllmdoctor rbac" in said.err


def test_a_port_that_nothing_listens_on_is_told_as_such(doctor: Doctor, cluster: Cluster) -> None:
    cluster.deployment("vllm")

    said = doctor.look("deploy/vllm")

    assert said.code == 3
    assert "8000" in said.err
    assert "refused" in said.err


def test_nvidia_smi_is_run_only_when_asked_for(doctor: Doctor, cluster: Cluster) -> None:
    work = cluster.deployment("vllm").serve(doctor.vllm())
    work.pods[0].run("nvidia-smi", Ran(SMI.read_bytes()))
    doctor.allowed("--with", "exec")

    recording = doctor.record(TARGET, ticks=2, execute=True)

    asked = doctor.asked("pods/exec")
    assert asked
    assert {one.query["command"][0] for one in asked} == {"nvidia-smi"}
    assert any("gpu" in key.lower() for of in recording.columns.values() for key in of)


def test_an_image_without_nvidia_smi_is_a_gap_and_asked_once(doctor: Doctor, cluster: Cluster) -> None:
    cluster.deployment("vllm").serve(doctor.vllm())
    doctor.allowed("--with", "exec")

    recording = doctor.record(TARGET, ticks=4, execute=True)

    assert any("nvidia-smi" in g.what and "executable file not found" in g.why for g in recording.gaps)
    assert len(doctor.asked("pods/exec")) == 1


def test_an_nvidia_smi_that_prints_no_figures_is_a_gap_and_the_metrics_are_read(
    doctor: Doctor, cluster: Cluster
) -> None:
    work = cluster.deployment("vllm").serve(doctor.vllm())
    work.pods[0].run("nvidia-smi", Ran(b"index\n0\n"))
    doctor.allowed("--with", "exec")

    recording = doctor.record(TARGET, ticks=2, execute=True)

    assert any("no figures" in gap.why for gap in recording.gaps)
    assert any("vllm:" in key for of in recording.columns.values() for key in of)


def test_the_log_tells_what_the_arguments_do_not(doctor: Doctor, cluster: Cluster) -> None:
    work = cluster.deployment("vllm", image="registry.example/vllm@sha256:0").serve(doctor.vllm())
    settings = "{'model': 'm', 'max_num_seqs': 7}"
    work.pods[0].say(f"INFO 11-29 13:00:00 [utils.py:233] non-default args: {settings}")

    recording = doctor.record(TARGET, ticks=2)

    assert {f.key: f.value for f in recording.facts}["max_num_seqs"] == 7


# --- what an API server answers when it does not answer --------------------------------------------


def test_an_expired_token_ends_it_with_one_line(doctor: Doctor, cluster: Cluster) -> None:
    cluster.deployment("vllm").serve(doctor.vllm())
    assert doctor.user is not None
    cluster.expire(doctor.user)

    said = doctor.look("deploy/vllm")

    assert said.code == 3
    assert "401" in said.err
    assert "log in again" in said.err


FAILURES: dict[str, tuple[str, Callable[[], Any]]] = {
    "409": ("pods", lambda: failures.conflict(kinds.named("Pod"), "x")),
    "429": ("pods", lambda: failures.too_many_requests(0)),
    "500": ("pods", lambda: failures.internal("etcdserver: leader changed")),
    "503": ("pods/proxy", lambda: failures.unreachable("dial tcp 10.244.1.1:8000: i/o timeout")),
    "504": ("pods/proxy", failures.timed_out),
}


@pytest.mark.parametrize("code", FAILURES)
def test_a_failure_that_passes_is_survived(code: str, doctor: Doctor, cluster: Cluster) -> None:
    cluster.deployment("vllm").serve(doctor.vllm(stepped("healthy", step=4)))
    resource, wrong = FAILURES[code]
    cluster.spoil(wrong(), resource=resource, times=1, skip=1 if resource == "pods/proxy" else 0)

    recording = doctor.record(TARGET, ticks=6)

    (shown,) = [of for of in recording.columns.values() if any("vllm:" in key for key in of)]
    assert len(next(iter(shown.values())).times) >= 5


@pytest.mark.parametrize("code", ["409", "429", "500"])
def test_a_failure_that_stays_is_one_line_with_the_code(code: str, doctor: Doctor, cluster: Cluster) -> None:
    cluster.deployment("vllm").serve(doctor.vllm())
    cluster.spoil(FAILURES[code][1](), resource="pods")

    said = doctor.look("deploy/vllm")

    assert said.code == 3
    assert f"vllmdoctor: {code}: " in said.err
    assert len(said.err.strip().splitlines()) <= 2


def test_a_list_that_expired_meanwhile_is_read_again_in_one_piece(doctor: Doctor, cluster: Cluster) -> None:
    cluster.deployment("vllm", replicas=3).serve(doctor.vllm())
    cluster.store.most = 2
    cluster.spoil(failures.expired(), verb="list", resource="pods", times=1, skip=1)

    recording = doctor.record(TARGET, ticks=1)

    assert sum(any("vllm:" in key for key in of) for of in recording.columns.values()) == 3


def test_an_answer_that_is_cut_off_is_asked_for_again(doctor: Doctor, cluster: Cluster) -> None:
    cluster.deployment("vllm").serve(doctor.vllm())
    cluster.spoil(Cut(2000), resource="pods/proxy", times=1)

    recording = doctor.record(TARGET, ticks=2)

    assert any("vllm:" in key for of in recording.columns.values() for key in of)


def test_a_login_page_in_front_of_the_api_server_is_told_as_such(doctor: Doctor, cluster: Cluster) -> None:
    cluster.deployment("vllm")
    cluster.spoil(failures.PlainFailure(200, "<html>Sign in</html>"), resource="deployments")

    said = doctor.look("deploy/vllm")

    assert said.code == 3
    assert "login page" in said.err


def test_a_redirect_and_a_failure_without_a_word_are_told_as_what_they_are(
    doctor: Doctor, cluster: Cluster
) -> None:
    cluster.spoil(failures.PlainFailure(302, "", {"location": "https://login.example"}), times=1)
    assert "answered with a redirect (302)" in doctor.look("deploy/vllm").err
    cluster.spoil(failures.PlainFailure(400, "oops"), times=1)
    assert "400: deployments vllm could not be read" in doctor.look("deploy/vllm").err


@pytest.mark.parametrize(
    "resource", ["events", "configmaps", "nodes", "horizontalpodautoscalers", "pods/log"]
)
def test_what_is_only_beside_the_pods_is_a_gap_where_it_fails(
    resource: str, doctor: Doctor, cluster: Cluster
) -> None:
    cluster.deployment("vllm", env_from=[{"configMapRef": {"name": "settings"}}]).serve(doctor.vllm())
    cluster.config_map("settings", {"VLLM_LOGGING_LEVEL": "INFO"})
    whole = len(doctor.record(TARGET, ticks=2).gaps)
    cluster.spoil(failures.internal("etcdserver: request timed out"), resource=resource)

    recording = doctor.record(TARGET, ticks=2)

    assert any("500" in gap.why for gap in recording.gaps), recording.gaps
    assert len(recording.gaps) > whole
