"""Rotation matrices, Euler parameters and Euler angles side by side (Kissel, Taves, Negrut)."""
