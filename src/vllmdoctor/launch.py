"""What a server was started with: the arguments of a `vllm serve` command, and facts from them."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from vllmdoctor.flags import arguments
from vllmdoctor.model import Fact
from vllmdoctor.release import Version

# short forms of vllm serve
SHORT: Mapping[str, str] = MappingProxyType(
    {
        "-tp": "--tensor-parallel-size",
        "-pp": "--pipeline-parallel-size",
        "-dp": "--data-parallel-size",
        "-dpl": "--data-parallel-size-local",
        "-dpa": "--data-parallel-address",
        "-dpp": "--data-parallel-rpc-port",
        "-dpr": "--data-parallel-start-rank",
        "-dpb": "--data-parallel-backend",
        "-dpn": "--data-parallel-rank",
        "-dcp": "--decode-context-parallel-size",
        "-pcp": "--prefill-context-parallel-size",
        "-asc": "--api-server-count",
        "-ep": "--enable-expert-parallel",
        "-sc": "--speculative-config",
        "-cc": "--compilation-config",
        "-O": "--optimization-level",
        "-q": "--quantization",
        "-n": "--nnodes",
        "-r": "--node-rank",
    }
)
# what takes more than one word
_MANY = frozenset(
    {
        "--served-model-name", "--lora-modules", "--middleware", "--cudagraph-capture-sizes",
        "--cuda-graph-sizes", "--ignore-patterns", "--disable-access-log-for-endpoints",
        "--logits-processors", "--long-lora-scaling-factors", "--collect-detailed-traces",
        "--lora-target-modules", "--device-ids", "--kv-cache-dtype-skip-layers", "--api-key",
    }
)  # fmt: skip
SECRETS = frozenset({"--api-key", "--hf-token"})  # never become facts, never leave the process
_COUNTS = frozenset(
    {
        "--max-model-len", "--max-num-batched-tokens", "--max-num-seqs", "--max-num-active-seqs",
        "--long-prefill-token-threshold", "--block-size", "--num-gpu-blocks-override",
        "--kv-cache-memory-bytes", "--tensor-parallel-size", "--data-parallel-size",
        "--pipeline-parallel-size", "--max-num-queued-reqs", "--max-num-queued-tokens",
    }
)  # fmt: skip
_HUMAN = re.compile(r"(\d+(?:\.\d+)?)([kmgtKMGT])")


@dataclass(frozen=True, slots=True)
class Given:
    """One argument as it was given: its full name with dashes, its value ("" for a bare switch).

    A switch that was turned off by `--no-NAME` has the value "False" and the name without the "no-".
    `written` is the first word as it stood there.
    """

    name: str
    value: str
    written: str
    bare: bool = False

    @property
    def key(self) -> str:
        """The name as vLLM's settings spell it: max_num_seqs."""
        return self.name.removeprefix("--").replace("-", "_")


@dataclass(frozen=True, slots=True)
class Workload:
    """The Kubernetes object that runs the server; "" and 0 where the manifest does not say."""

    kind: str
    name: str
    namespace: str
    container: str
    replicas: int
    labels: tuple[tuple[str, str], ...]
    field: str  # of the container: "args" or "command", where the arguments stand
    index: int  # of the container in the pod
    port: int = 0


@dataclass(frozen=True, slots=True)
class Launch:
    """A server's command: its arguments in order, and where they were read.

    `words` is the list that holds the arguments, word by word, with `prefix` words before the first
    argument; `stray` are words that belong to no argument. `image` is the container's, "" without one.
    `plain` says that the words can be written back as a list.
    """

    given: tuple[Given, ...]
    origin: str
    words: tuple[str, ...]
    prefix: int = 0
    stray: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    image: str = ""
    workload: Workload | None = None
    plain: bool = True

    def value(self, name: str) -> str | None:
        """The value in force of an argument: the last one given; None when it was not given."""
        return next((g.value for g in reversed(self.given) if g.name == name), None)

    @property
    def version(self) -> Version | None:
        """The release that the image's tag names, if it names one."""
        tag = self.image.rpartition(":")[2] if ":" in self.image.rpartition("/")[2] else ""
        found = re.match(r"v?(\d+\.\d+\.\d+(?:\.\d+)?(?:\.?post\d+)?)(?:$|[-+_])", tag)
        return Version.parse(found[1]) if found else None

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The settings, by vLLM's own names; never a secret."""
        found: dict[str, Fact] = {}
        for each in self.given:
            if each.name in SECRETS:
                continue
            found[each.key] = Fact(each.key, _typed(each), self.origin)
            if each.name == "--speculative-config":
                drafted = _drafted(each.value)
                if drafted is not None:
                    found["num_speculative_tokens"] = Fact("num_speculative_tokens", drafted, self.origin)
        if self.workload is not None and self.workload.replicas > 0:
            found["replicas"] = Fact("replicas", self.workload.replicas, f"{self.origin}: replicas")
        if self.version is not None:
            found["vllm_version"] = Fact("vllm_version", self.version.text, f"{self.origin}: image")
        return tuple(found.values())


def full_name(word: str) -> str:
    """The name with dashes, the short form spelt out; a dotted part (`.backend`) is kept."""
    word = SHORT.get(word, word)
    head, dot, rest = word.partition(".")
    return head.replace("_", "-") + dot + rest if word.startswith("--") else word


def is_argument(word: str) -> bool:
    """Whether a word names an argument, and is no value such as -1."""
    return word.startswith("--") or (word.startswith("-") and len(word) > 1 and not word[1].isdigit())


def parse_words(words: Sequence[str]) -> tuple[tuple[Given, ...], tuple[str, ...]]:
    """The arguments among the words, and the words that belong to none (the model comes first)."""
    given: list[Given] = []
    stray: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not is_argument(word):
            stray.append(word)
            continue
        written, equals, value = word.partition("=")
        name = full_name(written)
        off = name.startswith("--no-") and "--" + name[5:] in arguments()
        known = arguments().get("--" + name[5:] if off else name)
        if off:
            name = "--" + name[5:]
        switch = known.switch if known else False
        if equals:
            given.append(Given(name, value, written))
        elif off or (switch and not (rest and rest[0].lower() in ("true", "false"))):
            given.append(Given(name, "False" if off else "True", written, bare=True))
        elif rest and not is_argument(rest[0]):
            values = [rest.pop(0)]
            while name in _MANY and rest and not is_argument(rest[0]):
                values.append(rest.pop(0))
            given.append(Given(name, " ".join(values), written))
        else:
            given.append(Given(name, "True", written, bare=True))
    return tuple(given), tuple(stray)


def count(text: str) -> float | None:
    """The number written as vLLM takes it: 8192, 8k (8000), 8K (8192), 25.6k; None for anything else."""
    found = _HUMAN.fullmatch(text)
    if found:
        power = "kmgt".index(found[2].lower()) + 1
        return float(found[1]) * (1000.0 if found[2].islower() else 1024.0) ** power
    try:
        return float(text)
    except ValueError:
        return None


def _typed(each: Given) -> str | float | bool:
    if each.bare or each.value in ("True", "False"):
        return each.value == "True"
    if each.name in _COUNTS:
        number = count(each.value)
        return each.value if number is None or number < 0 else number
    return each.value


def _drafted(text: str) -> float | None:
    """Tokens drafted per step, from the JSON of --speculative-config."""
    try:
        config = json.loads(text)
    except ValueError:
        return None
    tokens = config.get("num_speculative_tokens") if isinstance(config, dict) else None
    return float(tokens) if isinstance(tokens, int) and not isinstance(tokens, bool) else None
