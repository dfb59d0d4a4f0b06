"""Integration on configuration groups (Mueller, Terze)."""
