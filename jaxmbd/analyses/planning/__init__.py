"""Motions by the optimum, on the constraint manifold."""
