"""Rotation-matrix elements and a Stewart platform (Dumitriu, Margaritescu)."""
