"""Models: their names and downloads, the engines that run them, and asking them items."""
