"""Made-up benchmarks whose truth is known."""
