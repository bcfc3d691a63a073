"""Servers to watch: those of the sources' tests, and no setting of the person who runs the tests."""

import os

import pytest
from tests.sources.conftest import page, second, server

__all__ = ["page", "second", "server"]


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("VLLMDOCTOR_PROM_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.delenv("VLLMDOCTOR_TOKEN", raising=False)
