"""What looks like a benchmark item."""
