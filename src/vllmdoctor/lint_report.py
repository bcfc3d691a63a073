"""The findings of a launch command as a page's rows and as JSON."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from vllmdoctor.flags import newest
from vllmdoctor.launch import Launch
from vllmdoctor.lint import Finding, lint
from vllmdoctor.model import Fact
from vllmdoctor.release import Version

SCHEMA = "vllmdoctor/lint/1"


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found in one launch, and for which release it holds."""

    origin: str
    release: Version
    said_by: str
    findings: tuple[Finding, ...]

    @property
    def head(self) -> str:
        """What was checked against what."""
        return f"{self.origin}, for vLLM {self.release} ({self.said_by})"

    @property
    def rows(self) -> list[tuple[str, str, str, str, str]]:
        """Severity's name, slug, argument, what, hint."""
        return [(f.severity.name.lower(), f.slug, f.argument, f.what, f.hint) for f in self.findings]

    @property
    def worst(self) -> int:
        """The severity of the worst finding; 0 without any."""
        return max((int(f.severity) for f in self.findings), default=0)

    @property
    def json(self) -> str:
        """All of it, for programs; the text is the same for the same launch."""
        keys = ("severity", "slug", "argument", "what", "hint")
        document = {
            "schema": SCHEMA,
            "origin": self.origin,
            "version": str(self.release),
            "version_origin": self.said_by,
            "findings": [dict(zip(keys, row, strict=True)) for row in self.rows],
        }
        return json.dumps(document, indent=1) + "\n"


def check(launch: Launch, vllm_version: str, known: Mapping[str, Fact]) -> Checked:
    """Check a launch for the release that is given, else the image's, else the newest that is known."""
    given = Version.parse(vllm_version) if vllm_version else None
    if given is not None:
        release, said = given, "given"
    elif launch.version is not None:
        release, said = launch.version, "from the image's tag"
    else:
        release, said = newest(), "the newest known; give yours with --vllm-version"
    return Checked(launch.origin, release, said, lint(launch, release, known))


def facts_given(kv_cache_tokens: int) -> dict[str, Fact]:
    """Facts about the server that a person gave beside its arguments."""
    if kv_cache_tokens <= 0:
        return {}
    return {"pool_tokens": Fact("pool_tokens", float(kv_cache_tokens), "--kv-cache-tokens")}
