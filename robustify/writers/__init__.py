"""The folder of a run, public or restricted."""
