"""Tables of picks: the user's own files with one row per answer, or with one column per model."""
