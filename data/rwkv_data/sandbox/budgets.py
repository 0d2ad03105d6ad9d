"""Times and sizes that the caller and the zygote must agree on. Nothing is imported here: every fork carries it."""

# A program that has used up neither its processor time nor its sleep after so many times the sum of both is starved
STARVED_AFTER = 20.0
# A program that has slept so long releases its processor slot
RELEASE_SLOT_S = 0.5
# The process that drives tests: it decodes what answers return, and may need room for it. The zygote watches its time.
DRIVER_LIMITS = {"cpu_s": 1e6, "memory_mb": 4096, "output_mb": 1024, "processes": 1, "threads": 64}


def sleep_for(cpu_s: float) -> float:
    """Return for how many seconds a program with a limit of `cpu_s` processor seconds may be asleep."""
    return 2.0 * cpu_s + 3.0
