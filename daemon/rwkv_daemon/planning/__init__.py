"""From a dispatch to jobs: the plan, what it costs, and when it will be done."""
