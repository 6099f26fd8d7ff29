"""Baselines that need no reference model: heuristics, trained probes on the options, and near-duplicate detection."""
