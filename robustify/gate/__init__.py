"""Leak gate: a scanner that keeps items of sensitive benchmarks out of a repository and its history.

The package imports only the standard library and `robustify.base`, so that a Git hook starts quickly.
"""
