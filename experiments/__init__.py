"""Programs that measure what jaxmbd and the papers claim, and write down what they found.

Every experiment is a subpackage with its README, its results and a function `run(out, quick, ...)`,
which `python -m experiments NAME` calls. A new one gets a row in the table of `runner.py`. Who
calls `run` from Python enables double precision first: `jaxmbd.enable_x64()`.
"""
