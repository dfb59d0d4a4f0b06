"""Environments to begin with, each a function that builds its mechanism and returns an
`Environment`.

This layer knows mechanisms, actions and rewards; it knows no way to learn. A new environment is a
new file here and a row in `ENVIRONMENTS`; the tests run over that table.

All actions lie between -1 and 1, in shares of what the motors can do.
"""

from collections.abc import Callable

from ..environment import Environment
from .cart_pole import cart_pole as cart_pole
from .five_bar import five_bar as five_bar
from .hopping_leg import hopping_leg as hopping_leg
from .stewart import stewart as stewart

ENVIRONMENTS: dict[str, Callable[[], Environment]] = {
    "cart_pole": cart_pole,
    "five_bar": five_bar,
    "hopping_leg": hopping_leg,
    "stewart": stewart,
}


def names() -> list[str]:
    """Names of the environments; `getattr(mbd.environments, name)()` makes one."""
    return sorted(ENVIRONMENTS)
