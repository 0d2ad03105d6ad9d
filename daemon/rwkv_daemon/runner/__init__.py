"""The job runner: one process a running job. Rows -> prompts -> engines -> answers -> graders -> samples file."""

import sys

sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
"""httpx's command line, which imports click and rich: a third of what a runner needs to start, for nothing."""
