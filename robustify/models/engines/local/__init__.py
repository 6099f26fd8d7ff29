"""Models that run on this machine with transformers.

OpenMP threads that wait spin by default, which used more processor time than the small steps of a decoder. The wait policy,
which OpenMP reads when torch is loaded, changes no number.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
