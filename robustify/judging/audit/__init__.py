"""Are shortcuts left in what was kept? The auditors, what each could have seen, and the verdict."""
