"""Judging: from answers to numbers. Pure, without a model."""
