"""What is behind `export`: an exporter that ends when it is told to, or after one diagnosis."""

import gc
import os
import sys
import threading
from collections.abc import Callable, Sequence

from vllmdoctor.errors import EXIT_DONE, BlindError
from vllmdoctor.exporting.loop import Exporter
from vllmdoctor.exporting.metrics import application, page
from vllmdoctor.exporting.settings import Clock, Settings
from vllmdoctor.exporting.web import Web
from vllmdoctor.exporting.webconfig import WebConfig
from vllmdoctor.model import Verdict

GARBAGE = (10_000, 10, 10)
"""How often cycles are looked for; the command line hardly ever does, for a run that is short."""

_STUCK_ROUNDS = 5  # a loop that has not been round for so many diagnoses is not healthy
_END_S = 1.0


def serve(
    targets: Sequence[str],
    settings: Settings,
    listen: str,
    config: WebConfig | None,
    over: threading.Event,
    tell: Callable[[str], object],
) -> None:
    """Watch and serve until `over` is set. UsageError for what cannot begin."""
    gc.set_threshold(*GARBAGE)
    clock = Clock(sleep=over.wait)
    exporter = Exporter(targets, settings, clock, tell)
    failure: list[BaseException] = []

    def work() -> None:
        try:
            exporter.run()
        except BaseException as error:  # noqa: BLE001  raised below, on the main thread
            failure.append(error)
        over.set()

    def healthy() -> bool:
        return clock.steady() - exporter.turned < _STUCK_ROUNDS * settings.diagnose_every_s

    web = Web(listen, application(lambda: exporter.state, clock.now), healthy, config)
    tell(f"serving {web.url}/metrics")
    loop = threading.Thread(target=work, daemon=True)
    loop.start()
    over.wait()
    web.close()
    loop.join(_END_S)
    if failure:
        raise failure[0]
    tell("ended")
    if loop.is_alive():  # a slow answer is waited for nowhere: it was only read, and nobody will see it
        sys.stderr.flush()
        os._exit(EXIT_DONE)


def export_once(
    targets: Sequence[str], settings: Settings, tell: Callable[[str], object]
) -> tuple[bytes, BlindError | None]:
    """One diagnosis as a page, and the error to end with where nothing could be said. Live targets are
    watched for the time between two diagnoses."""
    exporter = Exporter(targets, settings, Clock(), tell)
    exporter.run(once=True)
    state = exporter.state
    said = any(answer.verdict is not Verdict.BLIND for answer in state.answers)
    hint = "what was said above, or too short a look: --diagnose-every is how long a live server is watched"
    blind = None if said else BlindError("nothing could be diagnosed", hint=hint)
    return page(state, Clock().now()), blind
