"""Control by gradients through the simulator, and by linearization."""
