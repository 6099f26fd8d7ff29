"""A model run here with transformers.

Torch's threads must not spin while they wait for one another. OpenMP lets them by default, and a decoder's small steps end
with a wait each: that burnt more processor time than the steps themselves, and on a busy machine the clock's too. It
says nothing about who computes what, so no number changes. OpenMP reads this once, with torch; what the user has set stays.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
