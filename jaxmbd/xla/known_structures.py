"""Structures that were seen before: a function that is written anew, as a notebook's cell does when
it runs again, compiles nothing.
"""

import json
from collections import OrderedDict
from typing import Any, TypeVar

import jax

from .descriptions import Undescribed, describe
from .functions import describe_function

_Tree = TypeVar("_Tree")
_KNOWN: OrderedDict[str, Any] = OrderedDict()
_AT_MOST = 64


def with_known_structure(tree: _Tree) -> _Tree:
    """The tree with the structure of an earlier one of the same description, which programs were
    compiled for; its functions then are the earlier ones, of the same instructions.
    """
    leaves, structure = jax.tree.flatten(tree)
    try:
        key = json.dumps(describe(tree, functions=describe_function))
    except (Undescribed, TypeError):
        return tree
    known = _KNOWN.setdefault(key, structure)
    if len(_KNOWN) > _AT_MOST:
        _KNOWN.popitem(last=False)
    return jax.tree.unflatten(known, leaves)
