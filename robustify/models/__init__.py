"""Names and downloads of models, the engines that run them, and the code that asks them about items."""
