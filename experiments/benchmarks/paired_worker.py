"""One process of `paired`: compiles jobs with the package that PYTHONPATH names and times them on
request.

Requests and answers are lines of JSON. It uses public functions alone, so that it serves checkouts
of other days.
"""

import json
import os
import sys
import time

if hasattr(os, "sched_setaffinity"):  # before JAX starts threads
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import jaxmbd as mbd

H = 1e-3


def function(kind: str, model: str, integrator: str, steps: int):
    """What a job runs inside `jit`, its arguments, and its steps times batch elements."""
    system, state = mbd.load(model)
    options = {"h": H, "steps": steps, "save_every": steps, "throw": False}
    options["integrator"] = getattr(mbd, integrator)()

    def end(mass):
        heavier = eqx.tree_at(lambda s: s.mass, system, mass)
        sol = mbd.simulate(heavier, state, **options)
        return sol.r[-1, -1, 2] + sol.omega[-1, -1] @ sol.omega[-1, -1]

    name, *size = kind.split(":")
    gradient = jax.grad(end)
    mass = system.mass
    if name == "forward":
        return end, (mass,), steps
    if name == "gradient":
        return gradient, (mass,), steps
    if name == "tangent":
        return lambda m, v: jax.jvp(end, (m,), (v,))[1], (mass, mass), steps
    if name == "hessian":
        return lambda m, v: jax.jvp(gradient, (m,), (v,))[1], (mass, mass), steps
    assert name in ("batch", "gradients"), kind
    masses = mass * jnp.linspace(0.8, 1.2, int(size[0]))[:, None]
    each = end if name == "batch" else gradient
    return jax.vmap(each), (masses,), steps * int(size[0])


def from_host(model: str, integrator: str, steps: int):
    """The job of a plain call of `simulate`: seconds per step, without those of start and end."""
    system, state = mbd.load(model)
    method = getattr(mbd, integrator)()

    def seconds(count: int) -> float:
        began = time.process_time()
        mbd.simulate(system, state, h=H, steps=count, save_every=count, integrator=method)
        return time.process_time() - began

    return lambda: (seconds(steps + 2) - seconds(2)) / steps


def prepared(kind: str, model: str, integrator: str, steps: int):
    """A function that returns the seconds per step, and the values of the job."""
    if kind == "host":
        return from_host(model, integrator, steps), None
    job, args, count = function(kind, model, integrator, steps)
    program = jax.jit(job).lower(*args).compile()

    def run():
        began = time.process_time()
        jax.block_until_ready(program(*args))
        return (time.process_time() - began) / count

    return run, np.asarray(program(*args)).tolist()


def main() -> None:
    """Answer until the input ends."""
    mbd.enable_x64()
    os.environ["JAXMBD_COMPILE"] = "fast"  # as every run of some length is compiled
    run = None
    for line in sys.stdin:
        job = json.loads(line)
        if job:
            began = time.process_time()
            run, value = prepared(*job)
            run()
            answer = [time.process_time() - began, value]
        else:
            assert run is not None
            answer = run() * 1e6
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
