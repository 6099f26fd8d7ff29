"""Tables of picks: files of a team with one row per answer, or with one column per model."""
