"""Large-scale tests with faults and odd inputs: `python -m bench.torture` (`make torture`)."""
