"""The benchmark bicycle of Meijaard, Papadopoulos, Ruina, Schwab, nonlinear and with gradients."""
