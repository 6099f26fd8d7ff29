"""Statistics on plain numbers and arrays: intervals, tests, distributions, and agreement."""
