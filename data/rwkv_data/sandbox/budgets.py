"""Times and sizes that the caller and the zygote must agree on. Nothing is imported here: every fork carries it."""

# A program that has neither used its processor time nor slept for as long as it may after so many times both has not
# been let run
PATIENCE = 20.0
# Who has slept so long gives its place among the node's programs at work to another
NAP_S = 0.5
# The process that drives tests: it decodes what answers return, and may need room for it. The zygote watches its time.
DRIVER_LIMITS = {"cpu_s": 1e6, "memory_mb": 4096, "output_mb": 1024, "processes": 1, "threads": 64}


def sleep_for(cpu_s: float) -> float:
    """Seconds that a program which may use so many processor seconds may be asleep."""
    return 2.0 * cpu_s + 3.0
