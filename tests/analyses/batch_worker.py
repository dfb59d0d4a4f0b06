"""One process of a batch: python batch_worker.py OUT [PROCESS_ID PROCESSES PORT]."""

import sys

import jax
import numpy as np

import jaxmbd as mbd


def main(out, process=0, processes=1, port=0):
    mbd.enable_x64()
    if processes > 1:
        jax.distributed.initialize(f"localhost:{port}", processes, process)
    import equinox as eqx

    system, state = mbd.load("four_bar")

    def member(factor):
        heavier = eqx.tree_at(lambda s: s.mass, system, system.mass * factor)
        return mbd.simulate(heavier, state, h=1e-3, steps=30, save_every=30).r[-1]

    r = mbd.run_batch(member, np.linspace(0.5, 2.0, 10), chunk=4, progress=False)
    np.savez(out, r=r, devices=len(jax.devices()), processes=jax.process_count())


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
