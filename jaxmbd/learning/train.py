"""A training loop over batches of simulated motions."""

import functools
import json
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, PyTree
from tqdm import tqdm

from ..files import written
from ..model.readable import counted
from ..outcomes import RESULTS
from ..xla.options import chosen_options

# Seconds between two writings of a checkpoint.
_BETWEEN = 30.0
# Updates without one usable run, after which a training ends.
_PATIENCE = 10
_FORMAT = "jaxmbd training 1"

Loss: TypeAlias = Callable[[PyTree, PyTree], tuple[Array, RESULTS]]
Starts: TypeAlias = Callable[[Array, Array], PyTree]
# Of an update: the model and the optimizer after it; its loss, the norm of its gradient and the
# number of its failed runs; and the outcome of the first run that failed.
Found: TypeAlias = tuple[PyTree, PyTree, tuple[Array, Array, Array], RESULTS]
Update: TypeAlias = Callable[[PyTree, PyTree, Array, Array], Found]


class TrainingWarning(UserWarning):
    """Some simulations of a training failed and were left out, or the training ended early."""


@dataclass(frozen=True)
class Training:
    """The result of `train`.

    Attributes:
        model: The trained model.
        loss: Mean over the runs of an update that did not fail, NaN where all failed, (n,).
        gradient_norm: Of the mean gradient, before the optimizer, (n,).
        failed: Runs of an update that failed and were left out, (n,).
        seconds: Wall time from the start to the end of an update, that of compilation included and
            that before a resumption too, (n,) [s].
        updates: Updates that were asked for; n of them were done.
    """

    model: Any
    loss: np.ndarray
    gradient_norm: np.ndarray
    failed: np.ndarray
    seconds: np.ndarray
    updates: int

    @property
    def completed(self) -> bool:
        """Whether all updates were done."""
        return self.loss.size == self.updates

    def __repr__(self) -> str:
        done = f"Training: {self.loss.size} of {counted(self.updates, 'update')}"
        if not self.loss.size:
            return done
        lines = [
            f"{done} in {float(self.seconds[-1]):.0f} s",
            f"  loss: {self.loss[0]:.5g} at the first, {self.loss[-1]:.5g} at the last, "
            f"{np.nanmin(self.loss):.5g} at the least",
        ]
        if np.any(self.failed):
            lines.append(f"  {counted(int(np.sum(self.failed)), 'run')} failed and were left out")
        return "\n".join([*lines, f"  model: {type(self.model).__name__}"])


def train(
    model: PyTree,
    loss: Loss,
    starts: Starts,
    *,
    updates: int,
    batch: int = 32,
    optimizer: optax.GradientTransformation | None = None,
    seed: int = 0,
    checkpoint: str | os.PathLike | None = None,
    log: Callable[[int, dict[str, float], PyTree], None] | None = None,
    progress: bool = True,
) -> Training:
    """Minimize the mean of a loss over random starts, by exact gradients through the simulator.

        def loss(policy, start):
            sol = mbd.simulate(*cart_pole(policy, start).build(), h=0.01, steps=200)
            return jnp.mean(sol.r[:, 0, 0] ** 2), sol.result

        done = mbd.train(policy, loss, lambda key, share: jax.random.normal(key), updates=300)

    Every update draws `batch` starts, simulates them in one compiled program, and moves the arrays
    of the model by the optimizer along the mean gradient. A run that fails, or whose gradient is
    not finite, is left out of the mean and counted.

    Args:
        model: A pytree whose floating-point arrays are trained, an `equinox.Module` for example.
        loss: From the model and one start to the loss, a scalar, and `Solution.result` of the run.
            A pure function; `simulate` inside does not raise.
        starts: From a key of `jax.random` and the share of the updates already done, from 0 to 1,
            to one start: a pytree of arrays. The share is for curricula; put the time up to which a
            loss counts into the start, for example.
        updates: How many.
        batch: Starts in each.
        optimizer: Of `optax`; by default Adam at 0.01 with cosine decay to zero, and gradients
            clipped to a norm of 1.
        seed: Of the starts. Update k draws the same starts whether or not the training was resumed.
        checkpoint: A file that keeps model, optimizer and history, written every half minute and at
            the end. Where it exists, training goes on from it.
        log: Called after every update with its number, from 0; its loss, gradient_norm, failed and
            seconds; and the model.
        progress: Show a progress bar on standard error.

    Returns:
        The trained model and the history of the training; after an interruption (Ctrl-C), what was
        reached.

    Raises:
        ValueError: A number makes no sense, every run of the first update fails, or the checkpoint
            is of another training.
        TypeError: `loss` does not return what it should, or the model has nothing to train.

    Warns:
        TrainingWarning: Runs failed and were left out; or ten updates in succession had no run
            left, and the training ended.
    """
    for name, number in (("updates", updates), ("batch", batch)):
        if number < 1:
            raise ValueError(f"train: {name} must be positive, not {number}")
    if not jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array)):
        raise TypeError("train: the model has no floating-point arrays that could be trained")
    optimizer = _default(updates) if optimizer is None else optimizer
    update = _program(loss, starts, optimizer, batch)
    model = _strong(model)
    run = _Run(model, optimizer.init(eqx.filter(model, eqx.is_inexact_array)), seed, batch)
    file = None if checkpoint is None else Path(checkpoint)
    if file is not None and file.exists():
        run.resume(file)
    key, before = jax.random.key(seed), run.spent
    began = saved = time.monotonic()
    with tqdm(
        total=updates, initial=run.done, unit="update", disable=not progress, leave=False
    ) as bar:
        bar.set_description("train: compiling")
        try:
            while run.done < updates and not run.hopeless():
                share = jnp.asarray(run.done / updates)
                found = update(run.model, run.optimizer, jax.random.fold_in(key, run.done), share)
                numbers = run.advance(found, lambda: before + time.monotonic() - began)
                bar.set_description("train", refresh=False)
                bar.set_postfix(loss=f"{numbers['loss']:.4g}", refresh=False)
                bar.update(1)
                if log is not None:
                    log(run.done - 1, numbers, run.model)
                if file is not None and time.monotonic() - saved > _BETWEEN:
                    run.save(file)
                    saved = time.monotonic()
        except KeyboardInterrupt:
            if not progress or not run.done:
                raise
            bar.write(f"train: interrupted after {run.done} of {updates} updates; these are kept")
        finally:
            if file is not None and run.done:
                run.save(file)
    run.tell(updates)
    history = {name: np.asarray(x) for name, x in run.history.items()}
    return Training(run.model, **history, updates=updates)


def _strong(model: PyTree) -> PyTree:
    """Without weak types, as `jnp.array(0.1)` has them: the second update would compile again."""
    return jax.tree.map(
        lambda x: jax.lax.convert_element_type(x, x.dtype) if eqx.is_inexact_array(x) else x, model
    )


@functools.lru_cache(maxsize=8)
def _default(updates: int) -> optax.GradientTransformation:
    rate = optax.cosine_decay_schedule(1e-2, updates)
    return optax.chain(optax.clip_by_global_norm(1.0), optax.adam(rate))


def _program(
    loss: Loss, starts: Starts, optimizer: optax.GradientTransformation, batch: int
) -> Update:
    """The program of one update, kept for trainings by the same functions from other seeds."""
    try:
        return _kept(loss, starts, optimizer, batch)
    except TypeError:  # a callable that has no hash, such as a module with arrays
        return _update(loss, starts, optimizer, batch)


def _update(
    loss: Loss, starts: Starts, optimizer: optax.GradientTransformation, batch: int
) -> Update:
    """The compiled program of one update."""

    def checked(model: PyTree, start: PyTree) -> tuple[Array, RESULTS]:
        found = loss(model, start)
        if not (isinstance(found, tuple) and len(found) == 2 and _is_result(found[1])):
            raise TypeError(
                "train: loss must return the loss and `Solution.result`, for example "
                "`return jnp.mean(sol.r[:, 0, 0] ** 2), sol.result`"
            )
        if jnp.shape(found[0]) != ():
            raise TypeError(f"train: the loss must be a scalar, not of shape {found[0].shape}")
        return found

    compiled: Any = eqx.filter_jit  # its keywords for `jax.jit` are not in its signature

    @compiled(compiler_options=chosen_options())
    def update(model: PyTree, state: PyTree, key: Array, share: Array) -> Found:
        drawn = jax.vmap(lambda key: starts(key, share))(jax.random.split(key, batch))
        # Gradients run by run: in that of a mean, one NaN would be in all.
        of_runs = eqx.filter_vmap(
            eqx.filter_value_and_grad(checked, has_aux=True), in_axes=(None, 0)
        )
        (values, results), gradients = of_runs(model, drawn)
        good = jnp.isfinite(values) & (results == RESULTS.successful)
        for x in jax.tree.leaves(gradients):
            good = good & jnp.all(jnp.isfinite(x), axis=tuple(range(1, x.ndim)))
        count = jnp.sum(good)

        def mean(x: Array) -> Array:
            kept = jnp.where(good.reshape(-1, *[1] * (x.ndim - 1)), x, 0.0)
            return jnp.sum(kept, axis=0) / jnp.maximum(count, 1).astype(x.dtype)

        gradient = jax.tree.map(mean, gradients)
        with jax.numpy_dtype_promotion("standard"):  # optax counts steps in integers
            change, new = optimizer.update(gradient, state, eqx.filter(model, eqx.is_inexact_array))
        moved = eqx.apply_updates(model, change)

        def kept(new: PyTree, old: PyTree) -> PyTree:
            return jnp.where(count > 0, new, old) if eqx.is_array(new) else new

        value = jnp.where(count > 0, mean(values), jnp.nan)
        first_failure = jax.tree.map(lambda x: x[jnp.argmin(good)], results)
        return (
            jax.tree.map(kept, moved, model),
            jax.tree.map(kept, new, state),
            (value, _norm(gradient), batch - count),
            first_failure,
        )

    return update


# Few, since they keep alive what their functions hold.
_kept = functools.lru_cache(maxsize=8)(_update)


def _norm(tree: PyTree) -> Array:
    return jnp.sqrt(sum(jnp.sum(x**2) for x in jax.tree.leaves(tree)))


def _is_result(x: object) -> bool:
    return isinstance(x, type(RESULTS.successful))


class _Run:
    """What a training has reached."""

    def __init__(self, model: PyTree, optimizer: PyTree, seed: int, batch: int):
        self.model, self.optimizer = model, optimizer
        self.seed, self.batch = seed, batch
        self.history: dict[str, list[float]] = {
            "loss": [],
            "gradient_norm": [],
            "failed": [],
            "seconds": [],
        }

    @property
    def done(self) -> int:
        return len(self.history["loss"])

    @property
    def spent(self) -> float:
        """Seconds so far."""
        return self.history["seconds"][-1] if self.done else 0.0

    def hopeless(self) -> bool:
        last = self.history["failed"][-_PATIENCE:]
        return len(last) == _PATIENCE and min(last) == self.batch

    def advance(self, found: Found, clock: Callable[[], float]) -> dict[str, float]:
        model, optimizer, (value, norm, failed), first_failure = found
        if not self.done and int(failed) == self.batch:
            why = RESULTS[first_failure]
            raise ValueError(
                f"train: all {self.batch} runs of the first update failed: "
                f"{why or 'their losses or gradients are not finite'}"
            )
        self.model, self.optimizer = model, optimizer
        numbers = {
            "loss": float(value),
            "gradient_norm": float(norm),
            "failed": int(failed),
            "seconds": clock(),
        }
        for name, number in numbers.items():
            self.history[name].append(number)
        return numbers

    def tell(self, updates: int) -> None:
        """Warn of what a user should know."""
        failed = int(sum(self.history["failed"]))
        if self.hopeless() and self.done < updates:
            warnings.warn(
                f"train: all runs of the last {_PATIENCE} updates failed; the training ended after "
                f"{self.done} of {updates} updates",
                TrainingWarning,
                stacklevel=3,
            )
        elif failed:
            warnings.warn(
                f"train: {failed} of {self.done * self.batch} runs failed and were left out of "
                "their updates; `failed` of the training says where",
                TrainingWarning,
                stacklevel=3,
            )

    def _header(self) -> dict[str, Any]:
        return {"format": _FORMAT, "seed": self.seed, "batch": self.batch, "done": self.done}

    def _arrays(self):
        history = {name: np.asarray(x, float) for name, x in self.history.items()}
        return eqx.filter((self.model, self.optimizer), eqx.is_array), history

    def save(self, file: Path) -> None:
        """Write all, as a whole or not at all."""
        file.parent.mkdir(parents=True, exist_ok=True)
        with written(file, "wb", "checkpoint") as stream:
            stream.write((json.dumps(self._header()) + "\n").encode())
            eqx.tree_serialise_leaves(stream, self._arrays())

    def resume(self, file: Path) -> None:
        """Take all from a file."""
        with file.open("rb") as stream:
            try:
                header = json.loads(stream.readline())
            except ValueError:
                header = None
            if not isinstance(header, dict) or header.get("format") != _FORMAT:
                raise ValueError(f"train: {file} is no checkpoint of a training")
            for name in ("seed", "batch"):
                if header[name] != getattr(self, name):
                    raise ValueError(
                        f"train: {file} is of a training with {name}={header[name]}, not "
                        f"{getattr(self, name)}; give that, or another file"
                    )
            for name in self.history:
                self.history[name] = [0.0] * int(header["done"])
            try:
                arrays, history = eqx.tree_deserialise_leaves(stream, self._arrays())
            except (RuntimeError, ValueError, EOFError) as error:
                raise ValueError(
                    f"train: {file} is of another model or optimizer, or damaged: {error}"
                ) from None
        self.model, self.optimizer = eqx.combine(arrays, (self.model, self.optimizer))
        self.history = {name: list(x) for name, x in history.items()}
