"""What goes wrong while an exporter runs: counted by kind, and told once for as long as it lasts."""

import threading
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from vllmdoctor.errors import (
    NotEnoughData,
    NotVllm,
    SourceError,
    Unauthorized,
    Unreachable,
    UsageError,
    VllmDoctorError,
)

ERRORS: tuple[tuple[str, type[BaseException]], ...] = (
    ("unreachable", Unreachable),
    ("unauthorized", Unauthorized),
    ("not_vllm", NotVllm),
    ("not_enough_data", NotEnoughData),
    ("source", SourceError),
    ("usage", UsageError),
    ("internal", Exception),
)
"""The kinds that errors are counted by; the first that fits counts. `internal` is a bug."""


class Troubles:
    """Counts errors and tells each once. Safe to use from several threads."""

    def __init__(self, tell: Callable[[str], object]) -> None:
        self._tell = tell
        self._counts = Counter({kind: 0 for kind, _ in ERRORS})
        self._said: dict[str, str] = {}
        self._lock = threading.Lock()
        self.misuse: UsageError | None = None
        """The last error of those that no trying again mends."""

    @property
    def counts(self) -> Mapping[str, int]:
        """How many there were of each kind."""
        with self._lock:
            return dict(self._counts)

    def failed(self, who: str, error: Exception) -> None:
        """Something of `who` went wrong."""
        kind = next(kind for kind, of in ERRORS if isinstance(error, of))
        text = error.message if isinstance(error, VllmDoctorError) else _bug(error)
        with self._lock:
            self._counts[kind] += 1
            if isinstance(error, UsageError):
                self.misuse = error
            if self._said.get(who) == text:
                return
            self._said[who] = text
        hint = f" (hint: {error.hint})" if isinstance(error, VllmDoctorError) and error.hint else ""
        self._tell((text if text.startswith(who) else f"{who}: {text}") + hint)

    def mended(self, who: str, news: str = "") -> None:
        """It went well again; `news` is told if it had not."""
        with self._lock:
            failed = self._said.pop(who, "")
        if failed and news:
            self._tell(news)


def _bug(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}; this is a bug, please report it"
