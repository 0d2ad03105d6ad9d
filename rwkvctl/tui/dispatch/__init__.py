"""The dispatch form of the console: its fields, the planner behind it, and the rows of its preview."""
