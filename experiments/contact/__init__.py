"""Stops, dry friction and contact: reference cases with known answers, gradients, cost."""
