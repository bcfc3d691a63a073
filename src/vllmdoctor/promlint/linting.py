"""A file of rules or a dashboard: each expression judged, and the file with all of them corrected."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from vllmdoctor.errors import UsageError
from vllmdoctor.model import Severity
from vllmdoctor.promlint.flaws import Context, Flaw
from vllmdoctor.promlint.mend import judge
from vllmdoctor.promlint.places import Spot, Text
from vllmdoctor.promlint.reading import Expression, Nested, read
from vllmdoctor.release import Version

_DEEP = 3  # files inside of files: a List of ConfigMaps of rules is 1
_LARGE = 20_000_000


@dataclass(frozen=True, slots=True)
class Finding:
    """One mistake: where, the piece of the expression, what is wrong."""

    slug: str
    severity: Severity
    line: int
    piece: str
    what: str


@dataclass(frozen=True, slots=True)
class Faulty:
    """An expression with its mistakes, and the whole of it corrected; "" where that is for a person to do."""

    place: str
    line: int
    expression: str
    corrected: str
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Linted:
    """A file: how many expressions were read, those with mistakes, and its text without them."""

    origin: str
    release: Version | None
    scrape_s: float
    expressions: int
    faulty: tuple[Faulty, ...]
    corrected: str

    @property
    def worst(self) -> int:
        """The severity of the worst finding; 0 without any."""
        return max((int(f.severity) for each in self.faulty for f in each.findings), default=0)


def lint_file(path: str, release: Version | None = None, scrape_s: float = 15.0) -> Linted:
    """Check a file for a release of vLLM, or for all. UsageError for what holds no rules."""
    try:
        file = Path(path)
        if file.stat().st_size > _LARGE:
            raise UsageError(f"{path} is larger than {_LARGE // 1_000_000} MB: no file of rules")
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is no text") from None
    return lint_text(text, path, release, scrape_s)


def lint_text(text: str, origin: str, release: Version | None = None, scrape_s: float = 15.0) -> Linted:
    """As `lint_file`, for a text that has been read."""
    run = _Run(release, scrape_s)
    try:
        corrected = run.file(text, origin, 0, "")
    except RecursionError:
        raise UsageError(f"{origin} is nested too deeply to be read") from None
    if not run.count:
        hint = (
            "alert rules (Prometheus, PrometheusRule, VMRule), a Grafana dashboard, or a ConfigMap with these"
        )
        raise UsageError(f"no rules and no queries in {origin}", hint=hint)
    return Linted(origin, release, scrape_s, run.count, tuple(run.faulty), corrected)


class _Run:
    """One reading of a file and of the files inside it."""

    def __init__(self, release: Version | None, scrape_s: float) -> None:
        self.release, self.scrape_s = release, scrape_s
        self.faulty: list[Faulty] = []
        self.count = 0

    def file(self, raw: str, origin: str, above: int, within: str, depth: int = 0) -> str:
        """Judge all expressions of a text whose first line is `above` + 1 of the file; the text corrected."""
        text = Text(raw, origin)
        found = read(text.documents)
        for item in found.items:
            if isinstance(item, Nested):
                self._nested(item, text, origin, above, depth)
            else:
                self._one(item, text, above, within, frozenset(found.recorded))
        return text.edited()

    def _nested(self, item: Nested, text: Text, origin: str, above: int, depth: int) -> None:
        spot = text.spot(item.place, item.text)
        if depth >= _DEEP:
            return
        first = above + (spot.line if spot and spot.style in ("|", ">") else spot.line - 1 if spot else 0)
        try:
            corrected = self.file(item.text, f"{item.place} in {origin}", first, item.place, depth + 1)
        except UsageError:
            return  # text that has the word in it and is no file of rules
        if spot is not None and corrected != item.text:
            text.replace(spot, corrected.rstrip("\n"))

    def _one(self, item: Expression, text: Text, above: int, within: str, recorded: frozenset[str]) -> None:
        spot = text.spot(item.key, item.source)
        if item.key != "definition":
            self.count += 1
        near = (item.texts, item.unit, item.held, recorded)
        context = Context(item.use, self.release, self.scrape_s, *near)
        judged = judge(item.text, context)
        if not judged.flaws:
            return
        line = above + (spot.line if spot else 1)
        if item.key != "definition":  # Grafana keeps a variable's query twice
            findings = tuple(_findings(judged.flaws, item, spot, line))
            place = f"{item.place} ({within})" if within else item.place
            self.faulty.append(Faulty(place, line, item.text.strip(), judged.corrected, findings))
        if spot is not None and judged.corrected:
            text.replace(spot, item.before + judged.corrected + item.after)
        if item.anchor is not None and any(flaw.slug == "missing-for" for flaw in judged.flaws):
            text.before(item.anchor, "for: 5m")


def _findings(flaws: tuple[Flaw, ...], item: Expression, spot: Spot | None, line: int) -> Iterator[Finding]:
    """Each flaw on the line on which its first name stands, where the expression has several."""
    block = spot is not None and spot.style in ("|", ">")
    lines = item.text.split("\n")
    for flaw in flaws:
        at = next((n for n, each in enumerate(lines) if any(name in each for name in flaw.names[:1])), 0)
        within = at if len(lines) > 1 else 0
        yield Finding(flaw.slug, flaw.severity, line + within + block, flaw.piece, flaw.what)
