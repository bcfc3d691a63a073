"""A launch command before it runs: what stops the start-up, what does nothing, what harms."""

from pathlib import Path

import pytest

from vllmdoctor.flags import Release, arguments, flags
from vllmdoctor.launch_text import parse_command
from vllmdoctor.lint import LINTS, Finding, lint
from vllmdoctor.lint_report import check, facts_given
from vllmdoctor.model import Fact, Severity
from vllmdoctor.release import VersionRange, version
from vllmdoctor.versions import releases

NEW = version("0.32.0")


def found(args: str, release: Release = NEW, **known: float) -> dict[str, Finding]:
    facts = {key: Fact(key, value, "x") for key, value in known.items()}
    return {f.slug: f for f in lint(parse_command(f"vllm serve m {args}", "--args"), release, facts)}


def test_a_good_command_has_nothing_to_say() -> None:
    assert found("--max-num-seqs 64 --max-model-len 8192 --tensor-parallel-size 2 --port 8000") == {}


@pytest.mark.parametrize(
    ("args", "release", "slug", "severity", "words"),
    [
        ("--max-nm-seqs 4", "0.32.0", "unknown-argument", Severity.CRITICAL, "did you mean --max-num-seqs?"),
        (
            "--max-num-seq 4",
            "0.32.0",
            "abbreviated-argument",
            Severity.WARNING,
            "is taken for --max-num-seqs",
        ),
        ("--disable-log-requests", "0.17.0", "removed-argument", Severity.CRITICAL, "removed in 0.17.0"),
        ("--swap-space 4", "0.18.0", "removed-argument", Severity.CRITICAL, "removed in 0.18.0"),
        ("--swap-space 4", "0.17.1", "inert-argument", Severity.INFO, "ignored by this engine"),
        ("--preemption-mode swap", "0.11.0", "removed-argument", Severity.CRITICAL, "removed in 0.11.0"),
        ("--num-scheduler-steps 8", "0.10.1.1", "removed-argument", Severity.CRITICAL, "removed in 0.10.1.1"),
        (
            "--guided-decoding-backend outlines",
            "0.12.0",
            "removed-argument",
            Severity.CRITICAL,
            "use --structured-outputs-config.backend",
        ),
        ("--watermark 0.02", "0.19.0", "not-yet-argument", Severity.CRITICAL, "came in 0.24.0"),
        ("--enable-prefix-caching", "0.32.0", "default-argument", Severity.INFO, "changes nothing"),
        (
            "--max-num-partial-prefills 4",
            "0.20.0",
            "impossible-value",
            Severity.CRITICAL,
            "refuses more than 1",
        ),
        (
            "--max-num-partial-prefills 4",
            "0.9.0",
            "risky-value",
            Severity.WARNING,
            "falls back to the V0 engine",
        ),
        ("--scheduling-policy priority", "0.9.1", "risky-value", Severity.WARNING, "before 0.9.2"),
        ("--gpu-memory-utilization 0.95", "0.32.0", "memory-without-headroom", Severity.WARNING, "leaves 5%"),
        ("--gpu-memory-utilization 95", "0.32.0", "impossible-value", Severity.CRITICAL, "0 to 1"),
        ("--max-num-seqs many", "0.32.0", "impossible-value", Severity.CRITICAL, "is no number"),
        (
            "--max-num-batched-tokens 32 --max-num-seqs 64",
            "0.32.0",
            "impossible-value",
            Severity.CRITICAL,
            "below --max-num-seqs 64",
        ),
        (
            "--max-num-batched-tokens 2048 --max-model-len 8192 --no-enable-chunked-prefill",
            "0.32.0",
            "impossible-value",
            Severity.CRITICAL,
            "must hold a whole prompt",
        ),
        ("--max-num-batched-tokens 8192", "0.32.0", "trade-off", Severity.INFO, "smaller KV pool"),
        (
            "--long-prefill-token-threshold 4096 --max-num-batched-tokens 2048",
            "0.32.0",
            "inert-argument",
            Severity.INFO,
            "slices nothing",
        ),
        ("--disable-log-stats", "0.32.0", "blinding", Severity.WARNING, "switches off vLLM's metrics"),
        ("--num-gpu-blocks-override 64", "0.32.0", "risky-value", Severity.WARNING, "meant for tests"),
        (
            "--kv-cache-memory-bytes 1000000 --gpu-memory-utilization 0.9",
            "0.32.0",
            "inert-argument",
            Severity.INFO,
            "sets it",
        ),
        ("--max-num-seqs 4 --max-num-seqs 8", "0.32.0", "repeated-argument", Severity.WARNING, "4 then 8"),
        ("--max-num-seqs 4 8", "0.32.0", "stray-word", Severity.CRITICAL, "belongs to no argument"),
        ("--enable-prefix-caching=true", "0.32.0", "impossible-value", Severity.CRITICAL, "takes no value"),
        ("--speculative-config '{broken'", "0.32.0", "impossible-value", Severity.CRITICAL, "is no JSON"),
        ("--api-key abc", "0.32.0", "secret-in-arguments", Severity.WARNING, "VLLM_API_KEY"),
        ("--enforce-eager", "0.32.0", "trade-off", Severity.INFO, "decoding is slower"),
        (
            "--max-model-len 1024 --num-gpu-blocks-override 32 --block-size 16",
            "0.32.0",
            "context-above-pool",
            Severity.CRITICAL,
            "more than the KV pool's 512",
        ),
    ],
)
def test_what_is_found(args: str, release: str, slug: str, severity: Severity, words: str) -> None:
    finding = found(args, version(release))[slug]

    assert finding.severity is severity
    assert words in finding.line


def test_a_context_above_the_pool_is_found_with_the_pool_of_the_start_up_log() -> None:
    known = facts_given(76640)
    told = check(parse_command("vllm serve m --max-model-len 262144", "--args"), "0.19.1", known)

    assert [(f.slug, f.severity) for f in told.findings] == [("context-above-pool", Severity.CRITICAL)]
    assert "set --max-model-len 76640" in told.findings[0].hint


def test_memory_use_is_fine_where_the_device_was_seen_with_room() -> None:
    args = "--gpu-memory-utilization 0.94"

    assert "memory-without-headroom" in found(args)
    assert found(args, gpu_memory_total=80 * 1024.0**3, gpu_memory_free=4 * 1024.0**3) == {}


def test_worst_comes_first() -> None:
    told = lint(
        parse_command("vllm serve m --enable-prefix-caching --swap-space 4 --max-num-seq 3", "--args"), NEW
    )

    assert [f.severity for f in told] == [Severity.CRITICAL, Severity.WARNING, Severity.INFO]


def test_an_unknown_release_warns_of_what_some_releases_refuse() -> None:
    told = found("--swap-space 4", None)["removed-argument"]

    assert told.severity is Severity.WARNING
    assert found("--max-num-seqs 4", None) == {}
    assert found("--swap-space 4", VersionRange(version("0.20.0"), None))["removed-argument"].severity == 3


def test_a_release_newer_than_the_tables_is_not_sworn_about() -> None:
    assert found("--brand-new-thing 4", version("9.9.0"))["unknown-argument"].severity is Severity.WARNING


def test_without_a_release_it_is_told_which_one_was_taken() -> None:
    launch = parse_command("docker run vllm/vllm-openai:v0.18.0 --swap-space 4", "--args")

    assert check(launch, "", {}).head == "--args, for vLLM 0.18.0 (from the image's tag)"
    assert "(given)" in check(launch, "0.17.1", {}).head
    assert "the newest known" in check(parse_command("vllm serve m", "--args"), "", {}).head


def test_every_finding_is_in_the_documentation_word_for_word() -> None:
    page = (Path(__file__).parents[2] / "docs" / "lint.md").read_text(encoding="utf-8")

    assert [f"| `{slug}` | {about} |" in page for slug, about in LINTS.items()] == [True] * len(LINTS)


@pytest.mark.parametrize("release", releases(), ids=str)
def test_what_a_release_knows_is_never_called_unknown(release: Release) -> None:
    """Every argument of the detailed table is in the wide one, with the same span."""
    for name, table in flags().items():
        wide = arguments()[name]
        assert wide.known_in(release) == table.known_in(release), name  # type: ignore[arg-type]
