"""Judging: verdicts, statistics and guardrails, computed from answers without a model."""
