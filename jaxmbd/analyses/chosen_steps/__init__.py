"""Runs whose steps are chosen for a tolerance: the settings, the turns of a run, the motion between
its steps, what is returned.
"""
