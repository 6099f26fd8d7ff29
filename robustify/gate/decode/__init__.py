"""From bytes to every text that they hold."""
