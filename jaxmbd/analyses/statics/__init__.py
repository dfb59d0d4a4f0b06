"""Equilibria: poses at which a mechanism rests or turns steadily, and their stability."""
