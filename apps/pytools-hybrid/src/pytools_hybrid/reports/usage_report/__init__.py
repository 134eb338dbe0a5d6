"""The usage record, as figures for people or as single records for programs.

`usage_report` computes figures from the records in `toolindex.UsageLog`; `as_text`, `as_json` and
`days_as_csv` present them. `outcome_days` computes the figures of one tool.
`searches_table` and `outcomes_table` return the records themselves, which `table_as_csv` and
`table_as_json` write.
"""

from pytools_hybrid.reports.usage_report._figures import (
    DayFigures,
    ToolFigures,
    UsageReport,
    outcome_days,
    usage_report,
)
from pytools_hybrid.reports.usage_report._tables import (
    outcomes_table,
    searches_table,
    table_as_csv,
    table_as_json,
)
from pytools_hybrid.reports.usage_report._text import as_json, as_text, days_as_csv

__all__ = [
    "DayFigures",
    "ToolFigures",
    "UsageReport",
    "as_json",
    "as_text",
    "days_as_csv",
    "outcome_days",
    "outcomes_table",
    "searches_table",
    "table_as_csv",
    "table_as_json",
    "usage_report",
]
