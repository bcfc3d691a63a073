"""The commands that only show what vllmdoctor knows: causes, remedies, runbooks, signals, examples."""

import sys
from typing import Annotated

import typer

from vllmdoctor.cli.clusters import Asked, for_clusters
from vllmdoctor.cli.judging import check_version, window_of
from vllmdoctor.cli.options import VllmVersion
from vllmdoctor.cli.terminal import look
from vllmdoctor.errors import UnknownName


def rules() -> None:
    """List the causes that are looked for."""
    from vllmdoctor.render.pages import rules as page
    from vllmdoctor.rules import all_rules

    rows = [(r.slug, r.severity.name.lower(), r.summary) for r in all_rules()]
    sys.stdout.write(page(rows, **look()))


def remedies() -> None:
    """List the remedies that plans are made of."""
    from vllmdoctor.remedies import REMEDIES, summary
    from vllmdoctor.render.pages import remedies as page

    rows = [(slug, summary(slug)) for slug in REMEDIES]
    sys.stdout.write(page(rows, **look()))


def explain(
    slug: Annotated[
        str,
        typer.Argument(
            metavar="SLUG", help="a cause, a verdict or a remedy, as reports name it", show_default=False
        ),
    ],
) -> None:
    """Show the runbook page of a cause or a verdict, or what a remedy is."""
    from vllmdoctor.render.pages import runbook as page
    from vllmdoctor.runbook import read, slugs

    text = read(slug) if slug in slugs() else _remedy_page(slug)
    sys.stdout.write(page(text, **look()))


def _remedy_page(slug: str) -> str:
    """What a remedy is; UnknownName names pages and remedies alike."""
    from vllmdoctor.plan import page
    from vllmdoctor.remedies import REMEDIES
    from vllmdoctor.rules import all_rules
    from vllmdoctor.runbook import slugs

    if slug not in REMEDIES:
        raise UnknownName("runbook page or remedy", slug, (*slugs(), *REMEDIES))
    treated = ((r.slug, kind) for r in all_rules() for kind, used in r.remedies.items() if slug in used)
    return page(slug, [f"{cause}, {kind}" if kind else cause for cause, kind in treated])


@for_clusters
def signals(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TARGET]...", help="a server or recording; without one, the whole table"),
    ] = None,
    vllm_version: VllmVersion = "",
    *,
    asked: Asked,
) -> None:
    """Show which signals a server offers, under which names, and why others are absent."""
    from vllmdoctor.render.pages import signals as page
    from vllmdoctor.signals import SIGNALS, absence, canonical_name, renamed, resolve, unclaimed

    check_version(vllm_version)
    targets = asked.targets(words) if words or asked.chosen else []
    if not targets:
        table = [(s.name, ", ".join(n.text for n in s.names), s.what) for s in SIGNALS.values()]
        sys.stdout.write(page(table, **look()))
        return
    from vllmdoctor.sources import gather_targets

    recording = gather_targets(targets, window_of("1s", "1s", cluster=asked.watching))
    from vllmdoctor.engines import frames
    from vllmdoctor.facts import server_version

    found: dict[str, tuple[str, str, str]] = {}
    names: set[str] = set()
    notes: dict[str, None] = {}
    release = None
    for frame in frames(recording):
        release = server_version(recording, frame, vllm_version).release
        names |= set(frame.families)
        for signal, name in frame.names.items():
            found[signal] = (signal, name.text, SIGNALS[signal].what)
        notes |= dict.fromkeys(renamed(frame.families.keys(), release))
    if not names:
        names = {canonical_name(k.split("{")[0]) for columns in recording.columns.values() for k in columns}
        found = {s: (s, n.text, SIGNALS[s].what) for s, n in resolve(names).items()}
    absent = [(s, absence(s, release)) for s in SIGNALS if s not in found]
    sys.stdout.write(
        page(
            [found[s] for s in SIGNALS if s in found],
            absent,
            unclaimed(names),
            tuple(notes),
            **look(),
        )
    )


def examples() -> None:
    """List the bundled recordings of a real vLLM server."""
    from vllmdoctor.render.pages import examples as page
    from vllmdoctor.sources.example import examples as bundled

    rows = [(e.name, e.shows) for e in bundled()]
    sys.stdout.write(page(rows, **look()))
