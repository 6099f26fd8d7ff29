"""Models that run on this machine with transformers.

By default, OpenMP threads spin while they wait for one another, and each small step of a decoder ends with a wait. This
used more processor time than the steps themselves. The wait policy changes no number. OpenMP reads it when torch is loaded.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
