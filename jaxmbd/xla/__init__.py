"""Rewriting, compiling and caching of programs: the only room that knows the internals of JAX."""
