"""Safe expressions of time: strings in model files, parsed into a whitelist of operations and
evaluated by JAX.

Nothing is ever passed to `eval`: the grammar below is all there is. A text becomes a list of
instructions for a stack, numbers first and operations after them, so evaluation needs no recursion.
Arithmetic is real: what is known at load is computed by NumPy in double precision, and what is not
a finite real number there is refused.

    sum = term {("+" | "-") term}
    term = unary {("*" | "/") unary}
    unary = ("+" | "-") unary | power
    power = atom ["**" unary]
    atom = number | name | "(" sum ")" | name "(" sum {"," sum} ")"
"""

import functools
import math
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any, no_type_check

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from ..rotations.types import Array, Scalar

CONSTANTS = {"pi": math.pi, "e": math.e}
# Number of arguments, by the name in a text.
FUNCTIONS = dict.fromkeys(
    "sin cos tan asin acos atan sinh cosh tanh exp log sqrt abs sign".split(), 1
)
FUNCTIONS |= dict.fromkeys("atan2 minimum maximum".split(), 2)
_OTHER_NAMES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2"}


def _power(a: Array | float, b: Array | float) -> Any:
    # An integer exponent keeps t**2 differentiable at t = 0.
    return a ** (int(b) if isinstance(b, float) and b.is_integer() else b)


# Number of operands; of what is known, by NumPy; of what is traced, by JAX.
_ARITHMETIC: dict[str, tuple[int, Callable, Callable]] = {
    "+": (2, np.add, operator.add),
    "-": (2, np.subtract, operator.sub),
    "*": (2, np.multiply, operator.mul),
    "/": (2, np.divide, operator.truediv),
    "**": (2, np.power, _power),
    "negative": (1, np.negative, operator.neg),
}
_COUNTS = FUNCTIONS | {name: row[0] for name, row in _ARITHMETIC.items()}
_KNOWN = {name: getattr(np, _OTHER_NAMES.get(name, name)) for name in FUNCTIONS}
_KNOWN |= {name: row[1] for name, row in _ARITHMETIC.items()}
_TRACED = {name: getattr(jnp, _OTHER_NAMES.get(name, name)) for name in FUNCTIONS}
_TRACED |= {name: row[2] for name, row in _ARITHMETIC.items()}
_TOKEN = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[A-Za-z_]\w*|\*\*|[-+*/(),]", re.ASCII)
_SPACE = " \t\r\n"
_MAX_LENGTH = 2000
_MAX_DEPTH = 60
_MAX_EXPONENT = 64.0
# Instants [s] at which an expression is tried; where it is finite at none of them it is taken for a
# mistake.
PROBES = (0.0, 0.1, 0.37, 1.0, 2.7, 10.0)

# What a text becomes: a number and "t" are pushed, any other string is an operation on the top of
# the stack.
Program = tuple[float | str, ...]


class ExpressionError(ValueError):
    """A text is not an expression of time; the message says what is wrong with it."""


class Expression(eqx.Module):
    """A function of time [s] written as text, such as "pi/4*cos(2*t)"; a motion like any other.

    Allowed are numbers, `t`, the constants pi and e, + - * / **, parentheses and the functions in
    `FUNCTIONS`.
    """

    text: str = eqx.field(static=True)

    def __init__(self, text: Any):
        parse(text)  # refuses what is no text
        self.text = text

    def __call__(self, t: Scalar | float) -> Scalar:
        dtype = jnp.result_type(t, float)
        return jnp.asarray(_evaluate(parse(self.text), jnp.asarray(t, dtype), _TRACED), dtype)

    @property
    def constant(self) -> float | None:
        """Its value where it does not depend on time."""
        program = parse(self.text)
        return program[0] if len(program) == 1 and isinstance(program[0], float) else None


class Components(eqx.Module):
    """Three expressions, or numbers, as one vector function of time."""

    components: tuple[Expression, ...]

    @staticmethod
    def of(values: Sequence[float | str], what: str) -> "Components":
        """Of three texts or numbers, as a model file has them."""
        if len(values) != 3:
            raise ValueError(f"{what}: expected three components, got {len(values)}")
        return Components(
            tuple(Expression(x if isinstance(x, str) else repr(float(x))) for x in values)
        )

    def __call__(self, t: Scalar | float) -> Any:
        return jnp.stack([c(t) for c in self.components])


def time_function(value: float | str) -> float | Expression:
    """A time function of a model file: a number, also where a constant text gives it, or an
    expression.
    """
    if not isinstance(value, str):
        return value
    expression = Expression(value)
    return expression if expression.constant is None else expression.constant


def parse(text: Any) -> Program:
    """The instructions of an expression.

    Raises:
        ExpressionError: It is not a string, too long, contains anything but what `Expression`
            allows, has a constant part that is not a finite real number, or is finite at none of
            the instants `PROBES`.
    """
    if not isinstance(text, str):
        raise ExpressionError(f"an expression must be a string, not {type(text).__name__}")
    if len(text) > _MAX_LENGTH:
        raise ExpressionError(f"an expression may have {_MAX_LENGTH} characters, not {len(text)}")
    return _parse(text)


@functools.lru_cache(maxsize=1024)
def _parse(text: str) -> Program:
    program = _Parser(text).parse()
    with np.errstate(all="ignore"):
        values = _evaluate(program, np.array(PROBES), _KNOWN)
    if not np.any(np.isfinite(values)):
        instants = ", ".join(f"{t:g}" for t in PROBES)
        raise ExpressionError(
            f"the expression {shown(text)} has no finite value at any of t = {instants} s"
        )
    return program


def _evaluate(program: Program, t: Any, functions: dict[str, Callable]) -> Any:
    stack: list[Any] = []
    for item in program:
        if isinstance(item, str) and item != "t":
            count = _COUNTS[item]
            stack[-count:] = [functions[item](*stack[-count:])]
        else:
            stack.append(t if item == "t" else item)
    return stack.pop()


def shown(value: object) -> str:
    """A value as messages quote it: short, on one line, whatever it holds."""
    if isinstance(value, str):
        return repr(value) if len(value) <= 60 else f"{value[:57]!r}..."
    if isinstance(value, bool):
        return str(value).lower()  # as JSON writes it
    if isinstance(value, int | float):
        return (
            repr(value)
            if abs(value) < 10**20
            else f"{value:.6g}"
            if isinstance(value, float)
            else "a huge number"
        )
    return {list: "a list", dict: "an object", type(None): "null"}.get(
        type(value), type(value).__name__
    )


@no_type_check  # whose wrappers would take the stack that nested parentheses need
class _Parser:
    """One pass over the tokens; every method reads one rule of the grammar and returns where its
    text starts.
    """

    def __init__(self, text: Any):
        self.text = text
        self.tokens = self._split()
        self.next = 0
        self.end = 0  # of the text read so far
        self.depth = 0
        self.program: list[float | str] = []

    def parse(self) -> Program:
        self._sum()
        if self._token():
            self._fail_at_token()
        return tuple(self.program)

    # --- tokens ---

    def _split(self) -> list[tuple[int, str]]:
        tokens, k = [], 0
        while k < len(self.text):
            if self.text[k] in _SPACE:
                k += 1
                continue
            match = _TOKEN.match(self.text, k)
            if match is None:
                cure = "; a power is written **" if self.text[k] == "^" else ""
                raise ExpressionError(
                    f"the character {self.text[k]!r} in {shown(self.text)} is not allowed{cure}"
                )
            tokens.append((k, match[0]))
            k = match.end()
        return tokens

    def _token(self) -> str:
        return self.tokens[self.next][1] if self.next < len(self.tokens) else ""

    def _take(self, *wanted: str) -> str:
        """The next token, read, if it is one of those wanted, else nothing."""
        token = self._token()
        if not token or (wanted and token not in wanted):
            return ""
        self.end = self.tokens[self.next][0] + len(token)
        self.next += 1
        return token

    def _start(self) -> int:
        return self.tokens[self.next][0] if self.next < len(self.tokens) else len(self.text)

    def _fail_at_token(self):
        token = self._token()
        place = (
            f"unexpected {shown(token)} at character {self._start() + 1}"
            if token
            else "it ends too early"
        )
        raise ExpressionError(f"cannot read the expression {shown(self.text)}: {place}")

    # --- rules ---

    def _sum(self) -> int:
        return self._chain(self._term, "+", "-")

    def _term(self) -> int:
        return self._chain(self._unary, "*", "/")

    def _chain(self, rule: Callable[[], int], *operators: str) -> int:
        start = rule()
        while operation := self._take(*operators):
            rule()
            self._emit(operation, start)
        return start

    def _unary(self) -> int:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise ExpressionError(f"the expression {shown(self.text)} is nested too deeply")
        start = self._start()
        if sign := self._take("+", "-"):
            self._unary()
            if sign == "-":
                self._emit("negative", start)
        else:
            self._power()
        self.depth -= 1
        return start

    def _power(self) -> None:
        start = self._start()
        self._atom()
        if self._take("**"):
            self._unary()
            exponent = self.program[-1]
            if (
                isinstance(exponent, float)
                and abs(exponent) > _MAX_EXPONENT
                and not self._are_known(2)
            ):
                raise ExpressionError(
                    f"an exponent in {shown(self.text)} is too large; at most {_MAX_EXPONENT:g}"
                )
            self._emit("**", start)

    def _atom(self) -> None:
        start, token = self._start(), self._token()
        if token[:1].isalpha() or token[:1] == "_":
            self._take()
            self._call(token, start) if self._take("(") else self._name(token)
        elif token[:1].isdigit() or token[:1] == ".":
            self._take()
            self._push(float(token), start)
        elif self._take("("):
            self._sum()
            if not self._take(")"):
                self._fail_at_token()
        else:
            self._fail_at_token()

    def _name(self, name: str) -> None:
        if name in FUNCTIONS:
            raise ExpressionError(
                f"the function {name} in {shown(self.text)} lacks its argument in parentheses"
            )
        if name != "t" and name not in CONSTANTS:
            known = ", ".join(["t", *CONSTANTS])
            raise ExpressionError(
                f"unknown name {shown(name)} in {shown(self.text)}; known are {known} and functions"
            )
        self.program.append(CONSTANTS.get(name, "t"))

    def _call(self, name: str, start: int) -> None:
        if name not in FUNCTIONS:
            known = ", ".join(FUNCTIONS)
            raise ExpressionError(
                f"unknown function {shown(name)} in {shown(self.text)}; known are {known}"
            )
        count = 0
        while self._token() != ")" or count:
            self._sum()
            count += 1
            if not self._take(","):
                break
        if not self._take(")"):
            self._fail_at_token()
        if count != FUNCTIONS[name]:
            raise ExpressionError(
                f"{name} in {shown(self.text)} takes {FUNCTIONS[name]} argument(s), not {count}"
            )
        self._emit(name, start)

    # --- instructions ---

    def _are_known(self, count: int) -> bool:
        """Whether the last operands are numbers: an operand that ends with a number is nothing but
        this number.
        """
        return all(isinstance(item, float) for item in self.program[-count:])

    def _emit(self, operation: str, start: int) -> None:
        count = _COUNTS[operation]
        if not self._are_known(count):
            self.program.append(operation)
            return
        with np.errstate(all="ignore"):
            value = float(_KNOWN[operation](*self.program[-count:]))
        del self.program[-count:]
        self._push(value, start)

    def _push(self, value: float, start: int) -> None:
        if not math.isfinite(value):
            part = self.text[start : self.end]
            whole = "" if part == self.text.strip() else f" in {shown(self.text)}"
            raise ExpressionError(f"{shown(part)}{whole} is not a finite real number")
        self.program.append(value)
