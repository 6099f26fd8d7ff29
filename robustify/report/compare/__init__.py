"""Compare runs: which items moved, which numbers differ, and the page that says so."""
