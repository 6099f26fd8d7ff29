"""Audits of real public sets: `python -m bench.atlas` (`make atlas`) writes results/atlas."""
