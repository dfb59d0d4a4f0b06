"""What has to be said before JAX is imported.

Where compiled programs are kept between processes, XLA writes a line about the processor at the
level of errors for every program that it reads, and it looks at the level only while JAX is
imported. The command keeps programs, so it raises the level; errors of XLA reach Python as
exceptions all the same. Elsewhere the choice is the user's, see `enable_compilation_cache`.
"""

import os
import sys
from pathlib import Path


def _is_command() -> bool:
    """Whether this process is the command `jaxmbd`, or `python -m jaxmbd`."""
    started = sys.argv[0] if sys.argv else ""
    if started == "-m":  # the package is imported before Python looks for what -m names
        given = sys.orig_argv
        return "-m" in given and given[given.index("-m") + 1 :][:1] == ["jaxmbd"]
    return Path(started).stem == "jaxmbd"


if _is_command():
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
