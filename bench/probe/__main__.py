"""How far a probe's quantiles lie from the server's own record: `python -m bench.probe [CONCURRENCY]`.

The server runs in a process of its own and writes down when it read each request and wrote each chunk; both
processes read the same steady clock. Like an engine it answers all running requests in step. Exits 1 where
a quantile differs by more than LIMIT.
"""

import json
import multiprocessing
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from bench.probe.served import EACH_S, FIRST_S, TOKENS, serve

from vllmdoctor.probe.questions import read_questions
from vllmdoctor.probe.run import Settings, prepare, run
from vllmdoctor.sources.http import Http

LIMIT = 0.02
SECONDS = FIRST_S + TOKENS * EACH_S


def main() -> int:
    """Compare, print and judge."""
    concurrency = int(sys.argv[1]) if len(sys.argv) > 1 else 64
    pipe, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,), daemon=True)
    process.start()
    url = pipe.recv()
    with tempfile.TemporaryDirectory() as folder, Http() as http:
        requests = Path(folder, "requests.jsonl")
        requests.write_text(
            "".join(json.dumps({"prompt": f"prompt {i}"}) + "\n" for i in range(4 * concurrency))
        )
        settings = Settings(concurrency=2 * concurrency, rate=concurrency / SECONDS, warmup=8)
        ready = prepare(url, read_questions(str(requests)), settings, http)
        before = time.process_time()
        report = run(ready, Path(folder, "probe.rec"), http, None)
        busy = (time.process_time() - before) / report.seconds
    pipe.send("end")
    record = pipe.recv()[8:]
    process.join()
    seen = {s.name.partition(":")[2]: s for s in report.spreads}
    written = [np.asarray(times[:TOKENS]) for _, times in record]
    theirs_of: dict[str, Any] = {
        "ttft_seconds": [w[0] - received for w, (received, _) in zip(written, record, strict=True)],
        "itl_seconds": np.concatenate([np.diff(w) for w in written]),
        "e2e_seconds": [w[-1] - received for w, (received, _) in zip(written, record, strict=True)],
    }
    print(f"{report.answered} requests, {concurrency} at once, {report.output_rate:.0f} tokens/s; "
          f"the client used {100 * busy:.0f} % of a core")  # fmt: skip
    worst = 0.0
    for name, values in theirs_of.items():
        for q, ours in ((0.5, seen[name].p50), (0.95, seen[name].p95), (0.99, seen[name].p99)):
            told = float(np.quantile(values, q))
            worst = max(worst, abs(ours / told - 1))
            off = f"{100 * (ours / told - 1):+.2f} %"
            print(f"{name:14} p{100 * q:.0f}  server {told:.4f} s  probe {ours:.4f} s  {off}")
    print(f"worst: {100 * worst:.2f} % (limit {100 * LIMIT:g} %)")
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
