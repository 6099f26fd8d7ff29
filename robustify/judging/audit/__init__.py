"""Residual audit of the kept items: auditors, their power, and the verdict."""
