"""Sampled controllers: observations, memory, and commands that are held and may be delayed."""

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from ..model.system import System
from ..model.validation import Numbers, default_dtype, require, shown
from ..results.columns import columns_by_name
from ..results.solution import Solution
from ..xla.indexing import take
from .sensing import Sensing, looks_kept, sensors_among


class Controller(eqx.Module):
    """A sampled controller: every `period` steps it sees some quantities of the motion and computes
    commands, which are held until the next ones arrive. Derive from it, as from any `equinox`
    module; its arrays can be differentiated and trained.

        class PD(mbd.Controller):
            observes = ("pin.angle", "pin.rate")
            commands = ("torque",)
            kp: jax.Array
            kd: jax.Array

            def __call__(self, memory, seen, t):
                return memory, -self.kp * seen[0] - self.kd * seen[1]

    Class attributes:
        observes: Names of the quantities that it sees, see `quantities`.
        commands: Names of the inputs that it gives.

    Attributes:
        period: Steps between two samples; the first is at the initial time.
        delay: From a sample to its command's arrival, in periods; may be a fraction, may be
            differentiated. A command that arrives within a step acts over that step in proportion,
            so that derivatives by a delay are of first order in the step.
        longest_delay: Bound on `delay`, in periods: so many commands are kept.
        longest_sensor_delay: Bound on delay and period of each of its sensors, together [s]: so
            much of the past is kept. None where both are known, not traced by JAX.
    """

    observes: ClassVar[tuple[str, ...]] = ()
    commands: ClassVar[tuple[str, ...]] = ()

    period: int = eqx.field(static=True, default=1, kw_only=True)
    delay: Any = eqx.field(default=0.0, kw_only=True)
    longest_delay: int = eqx.field(static=True, default=1, kw_only=True)
    longest_sensor_delay: float | None = eqx.field(static=True, default=None, kw_only=True)

    def __check_init__(self):
        title = type(self).__name__
        if not isinstance(self.period, int) or self.period < 1:
            raise ValueError(f"{title}: period must be a positive number of steps")
        if not isinstance(self.longest_delay, int) or self.longest_delay < 0:
            raise ValueError(f"{title}: longest_delay must be a number of periods, 0 or more")
        for field in ("observes", "commands"):
            names = getattr(self, field)
            if isinstance(names, str) or not all(isinstance(name, str) for name in names):
                raise ValueError(f"{title}: {field} must be a tuple of names, not {names!r}")
        self.allowed_delay()

    def allowed_delay(self) -> Array:
        """The delay, in periods; NaN where it is traced and out of its range.

        Raises:
            ValueError: It is out of its range.
        """
        delay = jnp.asarray(self.delay, default_dtype())
        return require(
            (delay >= 0.0) & (delay <= self.longest_delay),
            delay,
            f"{type(self).__name__}: delay must lie between 0 and longest_delay="
            f"{self.longest_delay} periods, not {shown(delay)}",
        )

    def start(self) -> Any:
        """The memory before the first sample; nothing by default."""
        return ()

    @abc.abstractmethod
    def __call__(self, memory: PyTree, seen: Float[Array, " n"], t: Array) -> tuple[Any, Any]:
        """The next memory and the commands.

        Args:
            memory: Of the sample before.
            seen: The quantities in the order of `observes`, (n,).
            t: The time of the sample [s].

        Returns:
            The memory, of the same structure; the numbers of the inputs in the order of `commands`,
            (k,), or one number.
        """


class Control(eqx.Module):
    """Data that a controller carries from one step to the next.

    Attributes:
        memory: Its own.
        line: The last commands, the newest last, (m, k).
        sensing: Of its sensors, or None where their readings need no past.
    """

    memory: Any
    line: Float[Array, "m k"]
    sensing: Sensing | None = None

    @staticmethod
    def begun(
        system: System, controller: Controller, h: Numbers | None = None, key: Array | None = None
    ) -> "Control":
        """The data before the first sample, when no command has been given.

        Args:
            system: The mechanism.
            controller: Of its inputs.
            h: The step size [s].
            key: Of `jax.random`, for the noise of sensors.

        Raises:
            ValueError: It is not known how much of the past sensors need.
        """
        count = sum(label.width for label in system.inputs if label.name in controller.commands)
        memory = jax.tree.map(
            lambda x: jnp.asarray(x, default_dtype()) if isinstance(x, float) else jnp.asarray(x),
            controller.start(),
        )
        line = jnp.zeros((controller.longest_delay + 2, count), system.dtype)
        sensors = sensors_among(system, controller.observes)
        if not sensors:
            return Control(memory, line)
        title, bound = type(controller).__name__, controller.longest_sensor_delay
        looks = looks_kept(sensors, h, controller.period, title, bound)
        return Control(memory, line, Sensing.begun(system, controller.observes, looks, key))

    def sensed(
        self, system: System, controller: Controller, now: Solution, n: Array, h: Array
    ) -> tuple["Control", Float[Array, " n"]]:
        """The data after the sensors have been read, from a solution of one row after n steps of
        length h; and what the controller sees.
        """
        names, bound = controller.observes, controller.longest_sensor_delay
        if self.sensing is None:
            seen = map(jnp.asarray, columns_by_name(now, system, names))
            return self, jnp.stack([x[0] for x in seen])
        longest = None if bound is None else (bound, type(controller).__name__)
        place = (n, controller.period, h)
        sensing, seen = self.sensing.look(system, names, now, place, longest)
        return Control(self.memory, self.line, sensing), seen

    def sampled(self, controller: Controller, seen: Float[Array, " n"], t: Array) -> "Control":
        """The data after a sample at time t."""
        memory, commands = controller(self.memory, seen, t)
        flat = [jnp.ravel(jnp.asarray(x, self.line.dtype)) for x in jax.tree.leaves(commands)]
        command = jnp.concatenate(flat)
        if command.shape != self.line.shape[1:]:
            raise ValueError(
                f"{type(controller).__name__}: returns {command.size} number(s) for its commands "
                f"{', '.join(controller.commands)}, which take {self.line.shape[1]}"
            )
        kinds = jax.tree.map(lambda x: jnp.asarray(x).dtype, self.memory)
        if jax.tree.structure(memory) != jax.tree.structure(self.memory):
            raise ValueError(
                f"{type(controller).__name__}: the memory that it returns has another structure "
                "than that of start()"
            )
        memory = jax.tree.map(lambda x, kind: jnp.asarray(x).astype(kind), memory, kinds)
        line = jnp.concatenate([self.line[1:], command[None]])
        return Control(memory, line, self.sensing)

    def command(self, controller: Controller, n: Array) -> Float[Array, " k"]:
        """Mean command over the step that follows n others: the last commands, delayed."""
        period, dtype = controller.period, self.line.dtype
        begin = n.astype(dtype) - controller.allowed_delay().astype(dtype) * period
        first = jax.lax.stop_gradient(jnp.floor(begin / period))
        # From here on in the step the next command acts.
        share = jnp.clip(begin + 1.0 - (first + 1.0) * period, 0.0, 1.0)
        place = self.line.shape[0] - 1 - (n // period - first.astype(int))
        most = self.line.shape[0] - 1
        old, new = (take(self.line, jnp.clip(place + k, 0, most)) for k in (0, 1))
        return (1.0 - share) * old + share * new
