"""Measuring how well searches find the right tools of one tree, and which configuration is best.

`read_queries` reads requests with the tools that answer them, `configurations` returns what to
compare, and `Evaluator` runs every request in every configuration and measures the answers. The
other functions present the results.
"""

from pytools_hybrid.jobs.evaluate._best import BEST_BY, best
from pytools_hybrid.jobs.evaluate._configurations import (
    Configuration,
    configurations,
    of_models,
)
from pytools_hybrid.jobs.evaluate._evaluator import (
    EvaluationReport,
    Evaluator,
    copy_files,
    copy_index,
)
from pytools_hybrid.jobs.evaluate._figures import Figures, measure, recall_depths
from pytools_hybrid.jobs.evaluate._queries import EvaluationQuery, read_queries
from pytools_hybrid.jobs.evaluate._report import as_json, as_text, tables, title

__all__ = [
    "BEST_BY",
    "Configuration",
    "EvaluationQuery",
    "EvaluationReport",
    "Evaluator",
    "Figures",
    "as_json",
    "as_text",
    "best",
    "configurations",
    "copy_files",
    "copy_index",
    "measure",
    "of_models",
    "read_queries",
    "recall_depths",
    "tables",
    "title",
]
