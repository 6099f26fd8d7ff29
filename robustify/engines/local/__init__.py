"""A model in this process, scored by prefix trees."""
