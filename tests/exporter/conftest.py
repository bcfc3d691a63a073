"""Servers to watch: those of the sources' tests, and no setting of the person who runs the tests."""

from tests.prometheus.conftest import no_settings
from tests.sources.conftest import page, second, server

__all__ = ["no_settings", "page", "second", "server"]
