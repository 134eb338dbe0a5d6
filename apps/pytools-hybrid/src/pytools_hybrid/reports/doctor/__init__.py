"""The checks of `pytools-hybrid doctor`: what works here and what does not.

::

    for finding in diagnose(checks(settings)):
        print(finding.status, finding.check, finding.message)

Checks change nothing. Each runs in its own thread with a time limit, so that a check that hangs or
crashes becomes a finding, and the others still run. `model_choices` lists the embedding models that
could be used.
"""

from pytools_hybrid.reports.doctor._checks import checks
from pytools_hybrid.reports.doctor._finding import Check, Finding, Status
from pytools_hybrid.reports.doctor._models import model_choices
from pytools_hybrid.reports.doctor._run import diagnose

__all__ = [
    "Check",
    "Finding",
    "Status",
    "checks",
    "diagnose",
    "model_choices",
]
