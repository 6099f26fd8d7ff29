"""Real public sets audited one after another: `python -m bench.atlas` (`make atlas`) writes results/atlas."""
