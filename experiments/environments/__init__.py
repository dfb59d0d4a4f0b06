"""Learning in an environment with a closed loop: PPO, exact gradients, and a soft loop."""
