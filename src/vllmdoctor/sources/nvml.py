"""The one gate to NVIDIA's driver: every call goes through `Driver.ask`, which answers a value or a Refusal.

NVML is loaded when the first `Driver` opens, never on import. "Not supported" is an everyday answer
(consumer cards, MIG, vGPU), so it is a value here and no exception.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

_UNSUPPORTED = frozenset({3, 13, 25, 26})  # not supported, no such function, other struct, deprecated
_LOST = frozenset({15, 16, 28})  # lost, needs a reset, not found any more
_FORBIDDEN = frozenset({4})
_NOTHING_NEW = frozenset({0, 6, 10, 21})  # empty, not found, time-out, no data: nothing since the last look

_HINTS: Mapping[int, str] = MappingProxyType(
    {
        4: "run it as a user who may open /dev/nvidia*; in a container, give it the GPU",
        9: "is the driver loaded? `nvidia-smi` must work on this machine; in a container, give it the GPU",
        12: "run it where the GPU is: libnvidia-ml.so.1 comes with NVIDIA's driver",
        18: "the driver was updated and its old kernel module is still loaded: reload it or reboot",
    }
)
_WORDS: Mapping[int, str] = MappingProxyType(
    {
        4: "the driver gives no permission",
        9: "NVIDIA's driver is not loaded",
        12: "there is no NVIDIA driver library on this machine",
        15: "the GPU is lost (it has fallen off the bus)",
        16: "the GPU needs a reset",
        18: "the driver's library and its kernel module are of different versions",
    }
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the driver gave no value: NVML's code and a sentence."""

    code: int
    words: str

    @property
    def hint(self) -> str:
        """What a person can do about it; "" where there is nothing."""
        return _HINTS.get(self.code, "")

    @property
    def final(self) -> bool:
        """Whether asking the same again is pointless."""
        return self.code in _UNSUPPORTED or self.code in _FORBIDDEN

    @property
    def lost(self) -> bool:
        """Whether the GPU itself is gone."""
        return self.code in _LOST

    @property
    def quiet(self) -> bool:
        """Whether it only says that nothing happened since the last call."""
        return self.code in _NOTHING_NEW


class Driver:
    """A connection to the driver. `open` first; `close` at the end."""

    def __init__(self) -> None:
        self._nvml: Any = None

    def open(self) -> Refusal | None:
        """Load the library and start; a Refusal where that fails."""
        try:
            import pynvml  # type: ignore[import-untyped]  # here: 50 ms that only this source needs
        except ImportError:
            return Refusal(12, "the package nvidia-ml-py is not installed")
        self._nvml = pynvml
        answer = self.ask("nvmlInit")
        return answer if isinstance(answer, Refusal) else None

    def close(self) -> None:
        """End; the driver is free to unload."""
        if self._nvml is not None:
            self.ask("nvmlShutdown")

    def ask(self, function: str, *arguments: object) -> Any:
        """What one NVML function answers, or a Refusal. Units are NVML's own (mW, MHz, percent, bytes)."""
        call = getattr(self._nvml, function, None)
        if call is None:
            return Refusal(13, "not known to this version of nvidia-ml-py")
        try:
            return call(*arguments)
        except self._nvml.NVMLError as error:
            code = int(error.value)
            words = _WORDS.get(code) or str(error).strip().lower() or f"error {code}"
            return Refusal(code, words)
        except UnicodeDecodeError:  # a name that is no UTF-8
            return Refusal(999, "answered with text that cannot be read")

    def constant(self, name: str) -> int:
        """One of NVML's numbers by its name."""
        return int(getattr(self._nvml, name))
