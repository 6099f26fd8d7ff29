"""Models that run on this machine with transformers.

This module stops the threads of torch from busy-waiting. By default, OpenMP threads spin while they wait for one another,
and each small step of a decoder ends with a wait. Spinning used more processor time than the steps themselves, and more
elapsed time on a busy machine. The wait policy does not affect which thread computes what, so no number changes. OpenMP
reads it only once, when torch is loaded. A value set by the user is kept.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
