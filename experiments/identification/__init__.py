"""Numbers of mechanisms from measured motion."""
