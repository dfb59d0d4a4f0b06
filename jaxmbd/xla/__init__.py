"""What knows how JAX and XLA write programs down: nothing else touches their internals."""
