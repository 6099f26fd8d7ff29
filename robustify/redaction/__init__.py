"""Item text never reaches a message, a log or a repr."""
