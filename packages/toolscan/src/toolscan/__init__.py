"""Read Python tool modules without importing them.

    report = toolscan.scan("tools")
    for record in report.records:
        print(record.id, record.summary, toolscan.input_schema(record))
    for issue in report.issues:
        print(issue.path, issue.detail)

Schemas and stubs are made on demand, from what a record holds of its module.
"""

from toolscan._layout import LAYOUTS as LAYOUTS
from toolscan._layout import Layout as Layout
from toolscan._layout import ToolId as ToolId
from toolscan._records import Parameter as Parameter
from toolscan._records import ScanIssue as ScanIssue
from toolscan._records import ScanReport as ScanReport
from toolscan._records import ToolRecord as ToolRecord
from toolscan._records import input_schema as input_schema
from toolscan._records import output_schema as output_schema
from toolscan._records import stub as stub
from toolscan._scan import find_tools as find_tools
from toolscan._scan import read_tool as read_tool
from toolscan._scan import scan as scan
from toolscan.errors import ToolScanError as ToolScanError
