"""`python -m toolscan`."""

import sys

from toolscan._cli import main

sys.exit(main())
