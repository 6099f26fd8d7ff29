"""Tables of picks: your own files with one row per answer, or with one column per model."""
