"""The `jaxmbd` command."""

# Commands stand in --help in the order of these imports.
# isort: off
from . import models as _models  # noqa: F401
from . import motion as _motion  # noqa: F401
from . import small_motions as _small_motions  # noqa: F401
from . import batch as _batch  # noqa: F401
from . import pictures as _pictures  # noqa: F401

# isort: on
from .app import app as app
from .app import main as main
