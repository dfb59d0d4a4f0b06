"""Members of a large batch that are wrong and called successful, as users compile them: run by
test_single_precision.py in a process of its own, which prints what it finds as JSON."""

import json
import sys

import equinox as eqx
import jax
import jax.numpy as jnp

import jaxmbd as mbd

STEPS, STEP = 5, 1e-3


def main():
    name, bits, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if bits == "64":
        mbd.enable_x64()
    system, state = mbd.load(name)
    factors = jax.random.uniform(jax.random.key(7), (count,), minval=0.5, maxval=2.0)

    def member(factor):
        heavier = eqx.tree_at(lambda s: s.mass, system, system.mass * factor)
        sol = mbd.simulate(heavier, state, steps=STEPS, save_every=STEPS, h=STEP)
        open_by = jnp.max(jnp.abs(sol.violation(heavier).position[-1])) / system.length
        return sol.result == mbd.RESULTS.successful, open_by

    good, open_by = jax.jit(jax.vmap(member))(factors)
    most = {"64": 1e-12, "32": 1e-5}[bits]
    found = {
        "members": count,
        "precision": str(open_by.dtype),
        "failed": int(jnp.sum(~good)),
        "wrong_and_successful": int(jnp.sum(good & ~(open_by <= most))),
        "largest": float(jnp.max(open_by)),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
