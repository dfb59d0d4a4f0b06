"""Equilibria: where a mechanism rests or turns steadily, and how stable that is."""
