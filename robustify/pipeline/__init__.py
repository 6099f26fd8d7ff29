"""Steps of a run, from the config to the folder. Public and restricted sets differ only in their policy."""
