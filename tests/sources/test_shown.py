"""A target is shown without what may be secret in it."""

import pytest

from vllmdoctor.sources import without_login


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        ("http://user:secret@host:8000/metrics", "http://host:8000/metrics"),
        ("https://host/metrics?token=secret&x=1", "https://host/metrics?..."),
        ("prom+https://user:secret@host/prom?key=secret", "prom+https://host/prom?..."),
        ("night?.rec", "night?.rec"),
        ("example:healthy", "example:healthy"),
    ],
)
def test_logins_and_queries_are_not_shown(target: str, shown: str) -> None:
    assert without_login(target) == shown
