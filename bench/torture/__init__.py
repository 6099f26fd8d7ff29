"""Faults and odd inputs in large numbers: `python -m bench.torture` (`make torture`) writes results/bench/torture.json."""
