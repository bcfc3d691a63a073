"""Server-sent events come out the same, however the network cut them up."""

import json
import random
from itertools import pairwise

from bench.probe.server import cut_up, streamed
from hypothesis import given, settings
from hypothesis import strategies as st

from vllmdoctor.probe.stream import events

LINE = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\r\n"), max_size=20)


def pieces_of(whole: bytes, cuts: list[int]) -> list[tuple[float, bytes]]:
    edges = [0, *sorted({c % (len(whole) + 1) for c in cuts}), len(whole)]
    return [(float(i), whole[a:b]) for i, (a, b) in enumerate(pairwise(edges))]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(LINE, min_size=1, max_size=3), max_size=8),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.lists(st.integers(0, 10_000), max_size=30),
)
def test_events_do_not_depend_on_where_the_pieces_end(
    told: list[list[str]], end: str, cuts: list[int]
) -> None:
    whole = "".join("".join(f"data: {line}{end}" for line in lines) + end for lines in told).encode()
    wanted = ["\n".join(lines) for lines in told]

    assert [data for _, data in events(pieces_of(whole, cuts))] == wanted


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=20))
def test_any_bytes_are_read_without_an_error_and_times_ascend(whole: bytes, cuts: list[int]) -> None:
    times = [time for time, _ in events(pieces_of(whole, cuts))]

    assert times == sorted(times)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1000))
def test_an_answer_with_characters_of_several_bytes_survives_any_cut(seed: int) -> None:
    text = "Zürich 東京 🚀 ½ naïve"
    cut = cut_up(streamed(text), random.Random(seed))
    pieces = [(float(i), piece) for i, (_, piece) in enumerate(cut)]

    chunks = [json.loads(data) for _, data in events(pieces) if data != "[DONE]"]

    assert "".join(c["choices"][0]["text"] for c in chunks if c["choices"]) == text


def test_an_event_has_the_time_of_the_piece_that_completed_it() -> None:
    pieces = [(1.0, b"data: a"), (2.0, b"\n"), (3.0, b"\ndata: b\n\nda"), (4.0, b"ta: c\n\n")]

    assert list(events(pieces)) == [(3.0, "a"), (3.0, "b"), (4.0, "c")]


def test_comments_other_fields_and_a_byte_order_mark_say_nothing() -> None:
    whole = b"\xef\xbb\xbf: keep-alive\n\nevent: x\nid: 7\ndata:a\nretry: 3\n\n: again\n\n"

    assert list(events([(1.0, whole)])) == [(1.0, "a")]


def test_an_event_that_the_end_cuts_off_still_counts() -> None:
    assert list(events([(1.0, b"data: a\n\ndata: [DONE]")])) == [(1.0, "a"), (1.0, "[DONE]")]
