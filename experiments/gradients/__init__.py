"""Exact gradients: their errors, time and memory."""
