"""Leak gate: a scanner that keeps items of sensitive benchmarks out of a repository and its history.

The package imports only the standard library, `robustify.errors`, `robustify.files`, and `robustify.texts`, so that a
Git hook starts in a fraction of a second. It never prints an excerpt of what it scans and never changes a scanned file.
"""
