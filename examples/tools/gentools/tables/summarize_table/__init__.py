from .api import ColumnSummary, TableSummary, run

__all__ = ["ColumnSummary", "TableSummary", "run"]
