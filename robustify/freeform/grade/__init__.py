"""Grading of free answers by rules and judges."""
