"""Every expression of every dashboard has an answer in a real Prometheus with servers of that era."""

import pytest
from tests.dashboard.asking import expressions, filled, values
from tests.dashboard.conftest import END, ERAS

from vllmdoctor.dashboard import dashboard
from vllmdoctor.release import version

LATER = {"Queue, B": "0.20.0"}  # came with a release, so that servers of older ones do not have it


def without_data(url: str, text: str, era: str) -> list[tuple[str, str]]:
    """(where, query) of the expressions of a dashboard that give nothing for the servers of an era."""
    empty = []
    for where, expression in expressions(text):
        if where in LATER and version(era) < version(LATER[where]):
            continue
        query = filled(expression, f"v{era}")
        if not values(url, query, END - 1800, END - 60):
            empty.append((where, query))
    return empty


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("names", ["of that release", "of all releases"])
def test_every_panel_has_data(prometheus: str, era: str, names: str) -> None:
    text = dashboard(version(era) if names == "of that release" else None)
    assert without_data(prometheus, text, era) == []


@pytest.mark.parametrize("era", ERAS)
def test_victoriametrics_has_data_for_every_panel(victoria: str, era: str) -> None:
    assert without_data(victoria, dashboard(None), era) == []


@pytest.mark.parametrize("era", ERAS)
def test_without_kubernetes_every_panel_has_data(prometheus: str, era: str) -> None:
    assert without_data(prometheus, dashboard(None, server="instance"), era) == []
