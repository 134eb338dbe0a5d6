"""Search words for tools, written by a language model into a file that people review.

`plan_enrichment` decides what to ask; `enrich` asks the model and writes its answers to
`capabilities.toml` in each root. Every scan adds the words in that file to the index.
"""

from pytools_hybrid.jobs.enrich._asking import Asker
from pytools_hybrid.jobs.enrich._document import CapabilityFile, with_capabilities
from pytools_hybrid.jobs.enrich._plan import EnrichmentPlan, plan_enrichment, price_of
from pytools_hybrid.jobs.enrich._prompt import Said, SaidOfTool, Subject, capabilities_of, prompt_of
from pytools_hybrid.jobs.enrich._run import EnrichmentReport, enrich

__all__ = [
    "Asker",
    "CapabilityFile",
    "EnrichmentPlan",
    "EnrichmentReport",
    "Said",
    "SaidOfTool",
    "Subject",
    "capabilities_of",
    "enrich",
    "plan_enrichment",
    "price_of",
    "prompt_of",
    "with_capabilities",
]
