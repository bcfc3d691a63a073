"""Make the bundled examples from recordings of a real server: python script/make_examples.py FOLDER.

FOLDER holds one folder a recording, with scrapes.tar.xz (raw pages, `NNNN_<unix time>.prom`),
meta.json (how the server was started) and truth.json (what is wrong with it). The truth goes to
tests/truth.json, never into the recording itself.
"""

import argparse
import gzip
import json
import re
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vllmdoctor.exposition import parse_page
from vllmdoctor.model import Fact, Snapshot
from vllmdoctor.storage import About, Recorder

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "src" / "vllmdoctor" / "examples"
TRUTH = ROOT / "tests" / "truth.json"
TRUTH_KEYS = ("label", "kind", "acceptable", "must_not", "fix_of")

SHOWS = {
    "demand-drop": "throughput falls because three of four requests stop coming; the server is fine",
    "healthy": "a steady load well under capacity; nothing is wrong",
    "hol-big-batch": "long prompts take whole steps of a big token budget, everyone else waits",
    "hol-fix-mbt256": "hol-big-batch with --max-num-batched-tokens 256: shorter stalls, first tokens wait",
    "hol-fix-threshold256": "hol-big-batch with --long-prefill-token-threshold 256: both get better",
    "kv-thrash": "growing requests overfill a small KV cache: preemptions, and a queue that grows",
    "kv-thrash-fix-blocks": "kv-thrash with eight times the KV blocks: no preemption, no queue",
    "kv-thrash-fix-maxseqs": "kv-thrash with --max-num-seqs 4: no waste any more, but the queue stays",
    "overload-kv": "more requests than the KV cache can serve; the queue never ends",
    "overload-kv-fix-blocks": "overload-kv with eight times the KV blocks: faster; computing is the limit",
    "prefix-off": "a long shared prompt is computed for every request; prefix caching is off",
    "prefix-on": "prefix-off with prefix caching: nineteen of twenty prompt tokens come from the cache",
}


def main() -> None:
    """Write the examples, their index and the truth."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    EXAMPLES.mkdir(exist_ok=True)
    for name in SHOWS:
        (EXAMPLES / f"{name}.rec.gz").write_bytes(packed(folder / name))
    write(EXAMPLES / "index.json", SHOWS)
    truths = {name: json.loads((folder / name / "truth.json").read_text()) for name in SHOWS}
    write(TRUTH, {name: {key: truth[key] for key in TRUTH_KEYS} for name, truth in truths.items()})


def packed(trace: Path) -> bytes:
    """One recording as a .rec.gz file's content; the same input gives the same bytes."""
    meta = json.loads((trace / "meta.json").read_text())
    facts = dict(settings(meta["server_args"]))
    instance = f"{facts['host']}:{facts['port']}"
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "example.rec"
        about: About = {"targets": [f"http://{instance}"], "interval": float(meta["scrape_interval_s"])}
        with Recorder(path, about) as recorder:
            recorder.write(Fact("vllm_version", meta["vllm_version"], "/version", instance))
            for key, value in facts.items():
                recorder.write(Fact(key, value, "launch command", instance))
            for time, text in scrapes(trace / "scrapes.tar.xz"):
                recorder.write(Snapshot(time, instance, parse_page(text).values))
        return gzip.compress(path.read_bytes(), 9, mtime=0)


def scrapes(archive: Path) -> Iterator[tuple[float, str]]:
    """Unix time and text of every page."""
    with tarfile.open(archive) as pages:
        for member in pages:
            file = pages.extractfile(member)
            time = re.search(r"_(\d+\.\d+)\.prom$", member.name)
            if file is not None and time is not None:
                yield float(time[1]), file.read().decode()


def settings(arguments: list[str]) -> Iterator[tuple[str, str | float | int | bool]]:
    """vLLM's arguments as facts: `--max-num-seqs 4` is max_num_seqs = 4, `--no-x` is x = False."""
    flags = [at for at, text in enumerate(arguments) if text.startswith("--")]
    for at, following in zip(flags, [*flags[1:], len(arguments)], strict=True):
        key = arguments[at].removeprefix("--")
        if following > at + 1:
            yield key.replace("-", "_"), number_or_text(arguments[at + 1])
        else:
            yield key.removeprefix("no-").replace("-", "_"), not key.startswith("no-")


def number_or_text(text: str) -> str | float | int:
    """A flag's value as what it looks like."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


def write(path: Path, content: Any) -> None:
    """Write JSON that a person can compare."""
    path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
