"""Geometrically exact beams against closed forms and published values."""
