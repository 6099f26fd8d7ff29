"""What needs no reference model: heuristics, the artifact probe, linear probes."""
