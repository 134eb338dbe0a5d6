"""What works here and what does not: the checks behind `pytools-hybrid doctor`.

::

    for finding in diagnose(checks(settings)):
        print(finding.status, finding.check, finding.message)

A check looks and changes nothing. Each has a time limit and a thread of its own, so that one that
hangs or crashes is a finding, and the others go on. `model_choices` tells which embedding models
could be used.
"""

from pytools_hybrid.jobs.doctor._checks import checks
from pytools_hybrid.jobs.doctor._finding import Check, Finding, Status, Verdict
from pytools_hybrid.jobs.doctor._models import ModelChoice, model_choices
from pytools_hybrid.jobs.doctor._run import diagnose

__all__ = [
    "Check",
    "Finding",
    "ModelChoice",
    "Status",
    "Verdict",
    "checks",
    "diagnose",
    "model_choices",
]
