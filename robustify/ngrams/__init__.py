"""Which items stand, word for word, in text files."""
