"""The leak gate: keeps the items of a sensitive set out of a repository, its history and its messages.

Standard library only and alone: it imports nothing of robustify but errors and files, so that a hook starts in a
fraction of a second. It never prints an excerpt of what it found and it never changes a file that it scans.
"""
