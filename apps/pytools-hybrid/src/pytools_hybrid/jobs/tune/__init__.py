"""Learning a map of query vectors from a user's own requests, and measuring whether it helps.

`recorded` finds requests in the usage record, `fit` learns from requests, and `tune` measures
whether that helps other requests.
"""

from pytools_hybrid.jobs.tune._fit import fit
from pytools_hybrid.jobs.tune._recorded import recorded
from pytools_hybrid.jobs.tune._tune import tune

__all__ = ["fit", "recorded", "tune"]
