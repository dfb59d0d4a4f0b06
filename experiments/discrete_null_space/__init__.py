"""Energy-momentum integration and the discrete null space method (Betsch, Leyendecker)."""
