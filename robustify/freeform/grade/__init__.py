"""Grade free-text answers by rules and judges."""
