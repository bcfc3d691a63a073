"""How an exporter is told to end: SIGTERM and SIGINT, heard from the first moment on."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def told_to_end() -> Iterator[threading.Event]:
    """An event that is set by a signal; what the signals did before is put back at the end.

    As the first process of a container, a program that does not listen to SIGTERM does not hear it.
    """
    over = threading.Event()
    before = {sign: signal.signal(sign, lambda *_: over.set()) for sign in _SIGNALS}
    try:
        yield over
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)
