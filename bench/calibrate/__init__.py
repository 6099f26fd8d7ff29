"""Calibration on known truth: thousands of made-up benchmarks, judged by the production code."""
