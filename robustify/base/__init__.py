"""Hold what every room stands on: errors, files, settings, texts, and Git."""
