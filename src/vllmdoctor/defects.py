"""Known defects of vLLM that make a server decline: which releases have them, which mend them."""

from dataclasses import dataclass
from functools import cache

from vllmdoctor.flags import Release
from vllmdoctor.release import Version, VersionRange, version
from vllmdoctor.tables import rows


@dataclass(frozen=True, slots=True)
class Defect:
    """One defect: releases `low` to `high` have it, `fixed` is the first without it (None: none yet).

    `causes` are the slugs it looks like, `needs` the feature without which it does not show,
    `sure` whether it was seen in the source or only reported.
    """

    id: str
    causes: tuple[str, ...]
    title: str
    low: Version
    high: Version | None
    fixed: Version | None
    needs: str
    signature: str
    workaround: str
    sure: bool
    ref: str

    def affects(self, release: Release) -> bool:
        """Whether the release has it; for a range, whether all of it has. Unknown has none."""
        if release is None:
            return False
        if isinstance(release, VersionRange):
            return all(edge is not None and self._has(edge) for edge in (release.low, release.high))
        return self._has(release)

    def _has(self, release: Version) -> bool:
        if self.fixed is not None and release >= self.fixed:
            return False
        # A patch of the last affected minor that was not looked at has it too.
        return self.low <= release and (
            self.high is None or release <= self.high or release.minor == self.high.minor
        )


@cache
def defects() -> tuple[Defect, ...]:
    """Every defect in the table."""
    return tuple(
        Defect(
            id=row["id"],
            causes=tuple(row["causes"].split()),
            title=row["title"],
            low=version(row["low"]),
            high=version(row["high"]) if row["high"] else None,
            fixed=version(row["fixed"]) if row["fixed"] else None,
            needs=row["needs"],
            signature=row["signature"],
            workaround=row["workaround"],
            sure=row["sure"] == "yes",
            ref=row["ref"],
        )
        for row in rows("defects")
    )


def matching(slug: str, release: Release) -> tuple[Defect, ...]:
    """The defects of that release that look like the cause `slug`: surest and least special first."""
    found = [d for d in defects() if slug in d.causes and d.affects(release)]
    return tuple(sorted(found, key=lambda d: (d.fixed is None, not d.sure, bool(d.needs), d.id)))
