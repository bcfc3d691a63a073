"""A vLLM release as a value that compares, and a range of releases."""

import re
from dataclasses import dataclass, field

_FORM = re.compile(
    r"""^\s*v?(?P<release>\d+(?:\.\d+)*)
        (?:[-_.]?(?P<stage>a|b|rc)(?P<pre>\d*))?
        (?:[-_.]?post(?P<post>\d*))?
        (?:[-_.]?dev(?P<dev>\d*))?
        (?:\+[\w.-]*)?\s*$""",
    re.VERBOSE | re.IGNORECASE,
)
_STAGES = ("a", "b", "rc")
_FINAL = 3
_LATE = 1 << 30  # a release without .dev comes after every .dev build of it
_PARTS = 4  # 0.10.1.1 is the longest release number in use

_Key = tuple[tuple[int, ...], tuple[int, int], int, int]


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """One release, ordered as Python packages are: 0.9.0.dev5 < 0.9.0rc1 < 0.9.0 < 0.9.0.post1.

    Build it with `parse`; a local part (`+g1a2b3c`) is kept in the text and does not compare.
    """

    key: _Key
    text: str = field(compare=False)

    @classmethod
    def parse(cls, text: str) -> "Version | None":
        """The version written in `text`, or None when it is not one ("main", "", "unknown")."""
        form = _FORM.match(text)
        if form is None:
            return None
        release = tuple(int(part) for part in form["release"].split("."))
        release = (*release, *(0,) * (_PARTS - len(release)))
        post = -1 if form["post"] is None else int(form["post"] or 0)
        dev = _LATE if form["dev"] is None else int(form["dev"] or 0)
        if form["stage"] is not None:
            pre = (_STAGES.index(form["stage"].lower()), int(form["pre"] or 0))
        elif form["dev"] is not None and post < 0:
            pre = (-1, 0)
        else:
            pre = (_FINAL, 0)
        return cls((release, pre, post, dev), text.strip().removeprefix("v"))

    @property
    def release(self) -> tuple[int, ...]:
        """The numbers alone, padded to four: (0, 8, 5, 0)."""
        return self.key[0]

    @property
    def minor(self) -> tuple[int, int]:
        """The first two numbers: (0, 8)."""
        return self.release[0], self.release[1]

    @property
    def meaningful(self) -> bool:
        """Whether it can be looked up: builds without tags call themselves 0.1.dev1 or 0.0.0."""
        return self.release >= (0, 6, 0, 0)

    def __str__(self) -> str:
        return self.text


def version(text: str) -> Version:
    """The version written in `text`, which is known to be one. Raises ValueError otherwise."""
    parsed = Version.parse(text)
    if parsed is None:
        raise ValueError(f"not a version: {text!r}")
    return parsed


def short(release: Version) -> str:
    """The release as people write it: 0.12.0 is 0.12, 0.8.5.post1 stays."""
    return release.text.removesuffix(".0") if release.text.count(".") > 1 else release.text


@dataclass(frozen=True, slots=True)
class VersionRange:
    """The releases a server may be: `low` to `high`, both included; None leaves that side open.

    `engine` is "V0", "V1", "rust" (V1 behind the Rust front end) or "" when it cannot be told.
    """

    low: Version | None
    high: Version | None
    engine: str = ""
    origin: str = "inferred from the metric set"

    @property
    def span(self) -> str:
        """The releases alone: "0.12-0.14.1", "0.32 or newer", "unknown"."""
        if self.low is None and self.high is None:
            return "unknown"
        if self.low is None:
            return f"{self.high} or older"
        if self.high is None:
            return f"{short(self.low)} or newer"
        return str(self.low) if self.low == self.high else f"{short(self.low)}-{self.high}"

    @property
    def words(self) -> str:
        """In words, with where it comes from: "0.12-0.14.1 (inferred from the metric set)"."""
        return "unknown" if self.span == "unknown" else f"{self.span} ({self.origin})"

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True, slots=True)
class Span:
    """Releases from `since` to `last`, both included; None leaves that end open."""

    since: Version | None
    last: Version | None

    def holds(self, release: Version) -> bool:
        """Whether the release is one of them."""
        return (self.since is None or self.since <= release) and (self.last is None or release <= self.last)
