"""A server that only looks like vLLM from outside: `python .../vllm serve`, with children under its titles.

Each child is Python under another argv[0]; what it does stands after its title: `leak`, `step` or `rest`.
"""

import subprocess
import sys
import time

LEAK_BYTES_PER_S = 1_000_000
STEP_BYTES = 20_000_000
STEP_EVERY_S = 2.0

CHILD = """
import sys, time
held, what = [], sys.argv[1]
print("ready", flush=True)
start = time.monotonic()
while True:
    passed = time.monotonic() - start
    if what == "leak":
        while sum(map(len, held)) < LEAK * passed:
            held.append(b"x" * 50_000)
    elif what == "step":
        while len(held) < passed // EVERY:
            held.append(b"x" * STEP)
    time.sleep(0.02)
"""


def main() -> None:
    """Start a child for each `TITLE=WHAT`, tell their pids, and wait."""
    code = CHILD.replace("LEAK", str(LEAK_BYTES_PER_S)).replace("STEP", str(STEP_BYTES))
    code = code.replace("EVERY", str(STEP_EVERY_S))
    children = []
    for word in sys.argv[2:]:
        title, _, what = word.partition("=")
        children.append(
            subprocess.Popen(
                [title, "-S", "-E", "-c", code, what], executable=sys.executable, stdout=subprocess.PIPE
            )
        )
    for child in children:
        assert child.stdout is not None
        child.stdout.readline()
    print(*(child.pid for child in children), flush=True)
    while True:
        for child in children:
            child.poll()  # as vLLM does: who has ended is taken note of
        time.sleep(0.05)


if __name__ == "__main__":
    main()
