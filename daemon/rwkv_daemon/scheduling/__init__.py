"""Which job runs next and where: the facts for placement, leases, pauses, measured rates."""
