"""Runs that look for events: the root of a step, the turns of a run, what is returned."""
