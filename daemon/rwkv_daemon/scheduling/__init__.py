"""Which job runs next and where: what placement is told, leases, pauses, measured rates."""
