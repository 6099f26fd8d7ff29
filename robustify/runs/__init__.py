"""Run folders: the files of a run, typed readers of these files, and the seal of restricted runs."""
