"""Words as kubectl reads them become targets; what they cannot mean is said in one line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllmdoctor.errors import UnknownName, UsageError
from vllmdoctor.kube.kinds import KINDS, kind_of
from vllmdoctor.kube.names import is_choice, parse, targets_of
from vllmdoctor.kube.nouns import Named

NAMES = st.from_regex(r"[a-z]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)


def meant(
    *words: str, selector: str = "", everywhere: bool = False, files: tuple[str, ...] = ()
) -> list[str]:
    return list(targets_of(words, selector, everywhere, lambda word: word in files))


@pytest.mark.parametrize(
    ("words", "targets"),
    [
        (("deploy/vllm",), ["k8s:///deployment/vllm"]),
        (("deployment/vllm",), ["k8s:///deployment/vllm"]),
        (("deployments.apps/vllm",), ["k8s:///deployment/vllm"]),
        (("deployments.v1.apps/vllm",), ["k8s:///deployment/vllm"]),
        (("deploy", "vllm"), ["k8s:///deployment/vllm"]),
        (("sts", "a", "b"), ["k8s:///statefulset/a", "k8s:///statefulset/b"]),
        (("svc/front", "po/one"), ["k8s:///service/front", "k8s:///pod/one"]),
        (("lws/big",), ["k8s:///leaderworkerset/big"]),
        (("isvc/llama",), ["k8s:///inferenceservice/llama"]),
        (("LLMInferenceService/llama",), ["k8s:///llminferenceservice/llama"]),
        (("rayservice/llama",), ["k8s:///rayservice/llama"]),
        (("release/stack",), ["k8s:///helm/stack"]),
        (("vllm-7d4b9c8d9f-x2x7p",), ["k8s:///pod/vllm-7d4b9c8d9f-x2x7p"]),
        (("pods",), ["k8s:///pod"]),
        ((), ["k8s:///pod"]),
    ],
)
def test_words_mean_what_they_mean_to_kubectl(words: tuple[str, ...], targets: list[str]) -> None:
    assert meant(*words) == targets


@pytest.mark.parametrize(
    "word",
    [
        *("http://10.0.0.5:8000", "10.0.0.5:8000", "prom+http://p:9090", "nvml:", "host:42", "-"),
        *(
            "example:healthy",
            "k8s://inference/deploy/vllm",
            "./server.rec.gz",
            "/var/log/server.log",
            "[::1]:8000",
        ),
    ],
)
def test_other_targets_stay_what_they_are(word: str) -> None:
    assert meant(word) == [word]


def test_a_file_that_is_there_is_a_file_and_a_kind_stays_a_kind() -> None:
    assert meant("server.rec.gz", files=("server.rec.gz",)) == ["server.rec.gz"]
    assert meant("old/server.log", files=("old/server.log",)) == ["old/server.log"]
    assert meant("deploy/vllm", files=("deploy/vllm",)) == ["k8s:///deployment/vllm"]


def test_labels_and_all_namespaces_choose_pods_without_a_name() -> None:
    assert meant(selector="app=vllm,tier!=x") == ["k8s:///pod?app=vllm,tier!=x"]
    assert meant(everywhere=True) == ["k8s://*/pod"]
    assert [is_choice(t) for t in ("k8s:///pod", "k8s://*/pod", "k8s:///pod?a=b", "k8s:///pod/x", "x")] == [
        *(True, True, False, False, False)
    ]


@pytest.mark.parametrize(
    ("words", "options", "message", "hint"),
    [
        (("deplyo/vllm",), {}, "no kind named 'deplyo'", "did you mean 'deploy'?"),
        (("deploy/Vllm",), {}, "not a name of a deployment: 'Vllm'", "lower-case"),
        (("deploy/vllm",), {"selector": "a=b"}, "a name and a selector were given", "-l SELECTOR"),
        (("deploy/vllm",), {"everywhere": True}, "a name and -A were given", "-n"),
        (("deploy/",), {}, "not a name of a deployment: ''", "lower-case"),
    ],
)
def test_what_words_cannot_mean_is_said(
    words: tuple[str, ...], options: dict[str, object], message: str, hint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        meant(*words, **options)  # type: ignore[arg-type]
    assert caught.value.message == message
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("target", "named"),
    [
        ("k8s://inference/deploy/vllm", Named("inference", "deployment", "vllm")),
        ("k8s:///sts/vllm", Named("", "statefulset", "vllm")),
        ("k8s://inference/vllm-0", Named("inference", "pod", "vllm-0")),
        ("k8s://inference/pods?app=vllm", Named("inference", "pod", "", "app=vllm")),
        ("k8s://inference", Named("inference", "pod", "")),
        ("k8s://*/pods", Named("*", "pod", "")),
    ],
)
def test_a_target_names_a_place_a_kind_and_a_name(target: str, named: Named) -> None:
    assert parse(target) == named


@pytest.mark.parametrize(
    ("target", "error"),
    [
        ("k8s://a/b/c/d", UsageError),
        ("k8s://inference/deplomyent/vllm", UnknownName),
        ("k8s://In_Ference/deploy/vllm", UsageError),
        ("k8s://*/deploy/vllm", UsageError),
        ("k8s://a/deploy/vllm?app=b", UsageError),
    ],
)
def test_a_target_that_names_nothing_is_refused(target: str, error: type[UsageError]) -> None:
    with pytest.raises(error):
        parse(target)


@given(namespace=NAMES, kind=st.sampled_from(sorted(KINDS)), name=NAMES)
def test_a_target_is_read_as_it_was_written(namespace: str, kind: str, name: str) -> None:
    named = Named(namespace, kind, name)

    assert parse(str(named)) == named


@given(st.text(max_size=40))
def test_any_word_becomes_targets_or_one_line(word: str) -> None:
    try:
        found = meant(word)
    except UsageError as error:
        assert error.hint
    else:
        assert found


def test_a_kind_of_another_group_is_another_kind() -> None:
    assert kind_of("services.serving.knative.dev") is None
    assert kind_of("leaderworkersets.leaderworkerset.x-k8s.io") is KINDS["leaderworkerset"]
