"""Times and sizes that the caller and the zygote must agree on. Nothing is imported here: every fork carries it."""

# The clock decides after so many times the sleep that is allowed, whatever the machine does
PATIENCE = 20.0
# The process that drives tests: it decodes what answers return, and may need room for it. The zygote watches its time.
DRIVER_LIMITS = {"cpu_s": 1e6, "memory_mb": 4096, "output_mb": 1024, "processes": 1, "threads": 64}


def wall_for(cpu_s: float) -> float:
    """Seconds that a program which may use so many processor seconds may be asleep."""
    return 2.0 * cpu_s + 3.0
