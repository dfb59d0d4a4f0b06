"""Learning on a closed loop: through exact gradients, by evolution, in a soft-constraint model."""
