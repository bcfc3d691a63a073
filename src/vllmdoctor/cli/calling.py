"""By which name the program was called: usage lines and targets follow from it."""

PROGRAM, PLUGIN = "vllmdoctor", "kubectl vllmdoctor"
_called = PROGRAM


def call_as(name: str) -> None:
    """Remember the name; once, before any command runs."""
    global _called  # noqa: PLW0603  one run has one name
    _called = name


def program() -> str:
    """The name to show in usage lines."""
    return _called


def is_plugin() -> bool:
    """Whether kubectl runs it: words then name objects of the cluster."""
    return _called == PLUGIN
