"""robustify: how much of a multiple-choice score is knowledge, and how much is test-taking."""

__version__ = "0.1.0"
