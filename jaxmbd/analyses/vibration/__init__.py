"""Small motions about an equilibrium or a steady motion, and motions that repeat."""
