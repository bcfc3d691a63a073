"""A Grafana dashboard that leads through a diagnosis: is it slow, why, and is it the machine.

slow, why, hardware   the rows: a question and its expressions each
notes                 what is marked on all panels, and what can be chosen
scope                 which servers, and how they are grouped
grafana               all of it as JSON
"""

from vllmdoctor.dashboard.grafana import grafana
from vllmdoctor.dashboard.hardware import hardware
from vllmdoctor.dashboard.notes import notes, variables
from vllmdoctor.dashboard.nouns import Row
from vllmdoctor.dashboard.scope import Scope
from vllmdoctor.dashboard.slow import now, slow
from vllmdoctor.dashboard.why import why
from vllmdoctor.flags import Release
from vllmdoctor.promql import names_for
from vllmdoctor.release import Version

__all__ = ["Scope", "dashboard", "rows"]

UID = "vllmdoctor"


def rows(on: Scope) -> tuple[Row, ...]:
    """The rows, in the order in which they are read."""
    return now(on), slow(on), why(on), hardware(on)


def dashboard(release: Release = None, *, server: str = "pod", runbooks: str = "") -> str:
    """The dashboard's JSON for one release, or with all names that any release has.

    `server` is the label that names a server: "pod", or "instance" without Kubernetes. `runbooks` is
    the address that the pages' names are put behind; without it a panel names the command instead.
    """
    on = Scope.of(names_for(release), server)
    told = f"vLLM {release}" if isinstance(release, Version) else "vLLM of any release from 0.6 on"
    about = f"For {told}. Read it from the top: is it slow, why, is it the machine. Made by vllmdoctor."
    return grafana("vLLM: is it slow, and why", UID, about, rows(on), notes(on), variables(on), runbooks)
