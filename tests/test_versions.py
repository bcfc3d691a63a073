"""What is known of releases: how they compare, which one a page is, arguments and defects by release."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllmdoctor.defects import defects, matching
from vllmdoctor.errors import UnknownName
from vllmdoctor.flags import engine_of, flag, flags
from vllmdoctor.release import Version, VersionRange, version
from vllmdoctor.tables import rows
from vllmdoctor.versions import infer, releases

ORDERED = [
    "0.0.0",
    "0.1.dev1+g1a2b3c",
    "0.6.0",
    "0.8.5.dev3",
    "0.8.5rc1.dev7",
    "0.8.5rc1",
    "v0.8.5",
    "0.8.5.post1",
    "0.9.0",
    "0.10.0",
    "0.10.1.1",
    "0.10.2",
    "0.19.1rc1.dev221+g0123abc",
    "0.19.1",
]


def test_releases_compare_as_packages_do() -> None:
    parsed = [version(text) for text in ORDERED]

    assert parsed == sorted(parsed)
    assert len(set(parsed)) == len(parsed)


def test_a_local_part_does_not_compare_and_is_kept() -> None:
    one, other = version("0.9.0+cpu"), version("0.9.0")

    assert one == other
    assert one.text == "0.9.0+cpu"
    assert version("0.9") == version("0.9.0")


@pytest.mark.parametrize("text", ["", "main", "unknown", "0.9.x", "nightly-2026", "0..9"])
def test_what_is_no_version_is_none(text: str) -> None:
    assert Version.parse(text) is None


def test_a_build_without_tags_cannot_be_looked_up() -> None:
    assert [version(text).meaningful for text in ("0.1.dev1+g1a2b3c", "0.0.0", "0.6.0")] == [
        False,
        False,
        True,
    ]


@given(st.text(max_size=30))
def test_any_text_parses_or_does_not(text: str) -> None:
    parsed = Version.parse(text)

    assert parsed is None or parsed == version(text)


def page_of(release: Version, engine: str) -> set[str]:
    """The names that this release always shows."""
    names = set()
    for row in rows("metrics"):
        if row["engine"] != ("V0" if engine == "V0" else "V1") or not row["always"]:
            continue
        if engine == "rust" and row["rust"] == "no":
            continue
        gone = row["hidden"] and release >= version(row["hidden"])
        over = row["last"] and release > version(row["last"])
        if version(row["since"]) <= release and not gone and not over:
            names.add(row["name"])
    return names


PAGES = [
    (release, engine)
    for release in releases()
    for engine in ("V0", "V1", "rust")
    if (engine != "rust" or release >= version("0.22.0")) and page_of(release, engine)
]


@pytest.mark.parametrize(("release", "engine"), PAGES, ids=str)
def test_a_page_is_placed_in_a_range_that_holds_its_release(release: Version, engine: str) -> None:
    found = infer(page_of(release, engine))

    assert found.low is None or found.low <= release
    assert found.high is None or release <= found.high
    assert found.engine in (engine, "")


@pytest.mark.parametrize(
    ("release", "engine", "words"),
    [
        ("0.6.6", "V0", "0.6.4-0.6.6 (inferred from the metric set)"),
        ("0.7.3", "V1", "0.7.3 (inferred from the metric set)"),
        ("0.8.4", "V1", "0.8-0.9.1 (inferred from the metric set)"),
        ("0.10.0", "V1", "0.9.2-0.10.1.1 (inferred from the metric set)"),
        ("0.12.0", "V1", "0.12.0 (inferred from the metric set)"),
        ("0.14.1", "V1", "0.13-0.15.1 (inferred from the metric set)"),
        ("0.33.0", "V1", "0.32 or newer (inferred from the metric set)"),
    ],
)
def test_the_range_says_itself_in_words(release: str, engine: str, words: str) -> None:
    assert infer(page_of(version(release), engine)).words == words


def test_one_old_name_tells_the_engine() -> None:
    page = page_of(version("0.8.2"), "V0") | {"vllm:num_requests_swapped"}

    assert infer(page).engine == "V0"


def test_the_rust_front_end_is_told_by_what_it_leaves_out() -> None:
    page = page_of(version("0.33.0"), "rust")

    assert infer(page).engine == "rust"
    assert infer(page | {"python_info"}).engine == "V1"


def test_a_name_shown_again_on_request_does_not_mislead() -> None:
    page = page_of(version("0.11.0"), "V1") | {"vllm:gpu_cache_usage_perc"}

    assert infer(page).words == "0.11.0 (inferred from the metric set)"


def test_a_filtered_page_is_placed_by_what_is_there_alone() -> None:
    few = ["vllm:num_requests_running", "vllm:kv_cache_usage_perc"]

    assert infer(few, complete=False).words == "0.9.2 or newer (inferred from the metric set)"
    assert infer(["up", "python_info"]).words == "unknown"


def test_a_name_that_a_scrape_filter_drops_from_all_pages_does_not_matter() -> None:
    page = page_of(version("0.20.0"), "V1") - {"vllm:cache_config_info", "vllm:engine_sleep_state"}

    found = infer(page)

    assert found.low is not None
    assert found.low <= version("0.20.0") and found.high is not None and found.high >= version("0.20.0")


def test_samples_of_histograms_count_as_their_family() -> None:
    page = {f"{name}_sum" if "seconds" in name else name for name in page_of(version("0.32.0"), "V1")}

    assert infer(page).words == "0.32 or newer (inferred from the metric set)"


# --- arguments


@pytest.mark.parametrize(
    ("name", "release", "known"),
    [
        ("--watermark", "0.23.0", False),
        ("--watermark", "0.24.0", True),
        ("--swap-space", "0.17.1", True),
        ("--swap-space", "0.18.0", False),
        ("--disable-log-requests", "0.16.0", True),
        ("--disable-log-requests", "0.17.0", False),
        ("--max-num-queued-reqs", "0.28.0", False),
        ("--max-num-queued-reqs", "0.29.0", True),
    ],
)
def test_an_argument_is_known_from_its_first_to_its_last_release(
    name: str, release: str, known: bool
) -> None:
    assert flag(name).known_in(version(release)) is known


def test_an_argument_must_be_known_in_all_of_a_range() -> None:
    across = VersionRange(version("0.22.0"), version("0.29.0"))

    assert not flag("--watermark").known_in(across)
    assert flag("--max-num-seqs").known_in(across)
    assert flag("--watermark").known_in(VersionRange(version("0.24.0"), None))


def test_an_unknown_release_may_be_any_from_0_8_on() -> None:
    assert flag("--long-prefill-token-threshold").works_in(None)
    assert not flag("--watermark").known_in(None)
    assert not flag("--watermark").known_in(version("0.1.dev1"))
    assert flag("--gpu-memory-utilization").default_in(None) is None


@pytest.mark.parametrize(
    ("name", "release", "default"),
    [
        ("--gpu-memory-utilization", "0.19.1", "0.9"),
        ("--gpu-memory-utilization", "0.20.0", "0.92"),
        ("--enable-prefix-caching", "0.7.3", "False"),
        ("--enable-prefix-caching", "0.8.0", "True"),
        ("--scheduling-policy", "0.32.0", "fcfs"),
        ("--max-num-seqs", "0.7.0", "256"),
        ("--max-num-seqs", "0.32.0", None),
        ("--max-num-batched-tokens", "0.32.0", None),
    ],
)
def test_defaults_change_with_the_release(name: str, release: str, default: str | None) -> None:
    assert flag(name).default_in(version(release)) == default


def test_a_range_has_a_default_only_where_it_does_not_change() -> None:
    utilization = flag("--gpu-memory-utilization")

    assert utilization.default_in(VersionRange(version("0.18.0"), version("0.23.0"))) is None
    assert utilization.default_in(VersionRange(version("0.20.0"), None)) == "0.92"


def test_what_v1_ignores_does_not_work_there() -> None:
    assert flag("--swap-space").known_in(version("0.12.0"))
    assert not flag("--swap-space").works_in(version("0.12.0"))
    assert flag("--swap-space").works_in(VersionRange(version("0.8.3"), version("0.9.0"), "V0"))
    assert not flag("--max-num-partial-prefills").works_in(version("0.26.0"))
    assert not flag("--long-prefill-token-threshold").works_in(version("0.7.3"))
    assert not flag("--scheduling-policy").works_in(version("0.9.1"))


def test_a_removed_argument_says_when_it_went() -> None:
    assert str(flag("--swap-space").removed_in) == "0.18.0"
    assert str(flag("--disable-log-requests").removed_in) == "0.17.0"
    assert flag("--max-num-seqs").removed_in is None


def test_the_engine_is_v0_before_0_8_unless_the_range_knows_better() -> None:
    assert engine_of(version("0.7.3")) == "V0"
    assert engine_of(version("0.8.0")) == "V1"
    assert engine_of(VersionRange(version("0.9.0"), version("0.9.0"), "V0")) == "V0"
    assert engine_of(VersionRange(version("0.32.0"), None, "rust")) == "V1"


def test_an_argument_that_does_not_exist_is_an_error_with_a_near_miss() -> None:
    with pytest.raises(UnknownName) as error:
        flag("--max-num-seq")
    assert error.value.hint == "did you mean '--max-num-seqs'?"
    assert "--gpu-memory-utilization" in flags()


# --- defects


@pytest.mark.parametrize(
    ("slug", "release", "ids"),
    [
        ("memory-leak", "0.8.5", ["B04", "B05"]),
        ("memory-leak", "0.8.5.post1", ["B05"]),
        ("memory-leak", "0.21.0", ["B01", "B05"]),
        ("memory-leak", "0.26.0", ["B05", "B06", "B07"]),
        ("memory-leak", "0.29.0", []),
        ("kv-fragmentation", "0.26.0", ["B27", "B45", "B21", "B22"]),
        ("spec-decode-decay", "0.17.1", ["B38"]),
    ],
)
def test_a_defect_is_matched_by_release_and_by_what_it_looks_like(
    slug: str, release: str, ids: list[str]
) -> None:
    assert [defect.id for defect in matching(slug, version(release))] == ids


def test_a_range_has_a_defect_only_when_all_of_it_has() -> None:
    assert [d.id for d in matching("memory-leak", VersionRange(version("0.20.0"), version("0.23.0")))] == [
        "B01",
        "B05",
    ]
    assert "B01" not in [
        d.id for d in matching("memory-leak", VersionRange(version("0.22.0"), version("0.29.0")))
    ]
    assert matching("memory-leak", VersionRange(version("0.20.0"), None)) == ()
    assert matching("memory-leak", None) == ()


def test_a_defect_ends_where_its_fix_begins() -> None:
    for defect in defects():
        assert defect.high is None or defect.low <= defect.high, defect.id
        if defect.fixed is not None:
            assert defect.low < defect.fixed, defect.id
            assert not defect.affects(defect.fixed), defect.id
        assert defect.affects(defect.low), defect.id
