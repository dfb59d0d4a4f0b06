"""Safe expressions of time: strings in model files, parsed into a whitelist of operations and evaluated by JAX.

Nothing is ever passed to `eval`: the text is parsed to a syntax tree, every node is checked, and the tree is walked.
"""

import ast
import functools
import math
import sys

import equinox as eqx
import jax.numpy as jnp

from ..rotations.types import Scalar

CONSTANTS = {"pi": math.pi, "e": math.e}
FUNCTIONS = {
    "sin": jnp.sin,
    "cos": jnp.cos,
    "tan": jnp.tan,
    "asin": jnp.arcsin,
    "acos": jnp.arccos,
    "atan": jnp.arctan,
    "atan2": jnp.arctan2,
    "sinh": jnp.sinh,
    "cosh": jnp.cosh,
    "tanh": jnp.tanh,
    "exp": jnp.exp,
    "log": jnp.log,
    "sqrt": jnp.sqrt,
    "abs": jnp.abs,
    "sign": jnp.sign,
    "minimum": jnp.minimum,
    "maximum": jnp.maximum,
}
_TWO_ARGUMENTS = {"atan2", "minimum", "maximum"}
_BINARY = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.Pow: lambda a, b: a**b,
}
_UNARY = {ast.UAdd: lambda a: a, ast.USub: lambda a: -a}
_MAX_LENGTH = 2000
_MAX_DEPTH = 60
_MAX_EXPONENT = 64.0


class ExpressionError(ValueError):
    """A text is not an expression of time; the message says what is wrong with it."""


class Expression(eqx.Module):
    """A function of time [s] written as text, such as "pi/4*cos(2*t)"; a motion like any other.

    Allowed are numbers, `t`, the constants pi and e, + - * / **, parentheses and the functions in `FUNCTIONS`.
    """

    text: str = eqx.field(static=True)

    def __init__(self, text: str):
        parse(text)
        self.text = text

    def __call__(self, t: Scalar) -> Scalar:
        return jnp.asarray(_evaluate(parse(self.text), t), t.dtype)


@functools.lru_cache(maxsize=1024)
def parse(text: str) -> ast.expr:
    """The checked syntax tree of an expression.

    Raises:
        ExpressionError: It is not a string, too long, or contains anything but what `Expression` allows.
    """
    if not isinstance(text, str):
        raise ExpressionError(f"an expression must be a string, not {text!r}")
    if len(text) > _MAX_LENGTH:
        raise ExpressionError(f"an expression may have {_MAX_LENGTH} characters, not {len(text)}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ExpressionError(f"cannot read the expression {text!r}: {error}") from None
    _check(tree, text, 0)
    try:
        _evaluate(tree, jnp.asarray(0.37))
    except (ZeroDivisionError, OverflowError) as error:
        raise ExpressionError(f"the expression {text!r} cannot be evaluated: {error}") from None
    return tree


def _check(node: ast.expr, text: str, depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise ExpressionError(f"the expression {text[:40]!r}... is nested too deeply")
    match node:
        case ast.Constant(value=value):
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ExpressionError(f"{value!r} in {text!r} is not a number")
            if abs(value) > sys.float_info.max:
                raise ExpressionError(f"{value!r} in {text!r} is not finite")
        case ast.Name(id=name):
            if name != "t" and name not in CONSTANTS:
                known = ", ".join(["t", *CONSTANTS])
                raise ExpressionError(f"unknown name {name!r} in {text!r}; known are {known} and functions")
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            _check(operand, text, depth + 1)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            _check(left, text, depth + 1)
            _check(right, text, depth + 1)
            if isinstance(op, ast.Pow):
                _check_exponent(right, text)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
            wanted = 2 if name in _TWO_ARGUMENTS else 1
            if len(args) != wanted:
                raise ExpressionError(f"{name} in {text!r} takes {wanted} argument(s), not {len(args)}")
            for arg in args:
                _check(arg, text, depth + 1)
        case ast.Call(func=ast.Name(id=name)):
            raise ExpressionError(f"unknown function {name!r} in {text!r}; known are {', '.join(FUNCTIONS)}")
        case _:
            raise ExpressionError(
                f"{ast.unparse(node)!r} in {text!r} is not allowed; use numbers, t, pi, e, + - * / ** and "
                f"{', '.join(FUNCTIONS)}"
            )


def _check_exponent(node: ast.expr, text: str) -> None:
    if any(isinstance(n, ast.Name) and n.id == "t" for n in ast.walk(node)):
        return
    try:
        value = abs(float(_evaluate(node, jnp.asarray(0.0))))
    except (ZeroDivisionError, OverflowError):
        value = math.inf
    if not value <= _MAX_EXPONENT:
        raise ExpressionError(f"an exponent in {text!r} is too large; at most {_MAX_EXPONENT:g}")


def _evaluate(node: ast.expr, t: Scalar):
    match node:
        case ast.Constant(value=value):
            return float(value)
        case ast.Name(id="t"):
            return t
        case ast.Name(id=name):
            return CONSTANTS[name]
        case ast.UnaryOp(op=op, operand=operand):
            return _UNARY[type(op)](_evaluate(operand, t))
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _evaluate(left, t), _evaluate(right, t)
            if isinstance(op, ast.Pow) and isinstance(b, float) and b.is_integer():
                b = int(b)  # keeps t**2 differentiable at t = 0
            return _BINARY[type(op)](a, b)
        case ast.Call(func=ast.Name(id=name), args=args):
            return FUNCTIONS[name](*(jnp.asarray(_evaluate(arg, t), t.dtype) for arg in args))
    raise AssertionError(node)
