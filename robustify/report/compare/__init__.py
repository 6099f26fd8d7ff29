"""Comparison of two or more finished runs."""
