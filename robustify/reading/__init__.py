"""Reading of benchmark files, logs, and labels into items and answers."""
