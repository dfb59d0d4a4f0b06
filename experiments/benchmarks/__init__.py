"""Time a step, time against size, and throughput of batches."""
