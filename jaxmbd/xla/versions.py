"""The version of jaxlib, and the versions with which the suite has been run."""

from importlib.metadata import version

JAXLIB_VERSION = version("jaxlib")
JAXLIB = tuple(int(x) for x in JAXLIB_VERSION.split(".")[:2])

# The suite has been run with exactly these; others below `UNTESTED` are checked on first use.
TESTED = frozenset({"0.8.0", "0.10.1", "0.12.0.1"})
UNTESTED = (0, 13)  # the first version that pyproject.toml does not allow
