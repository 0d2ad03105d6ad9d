"""Programs for the store as a whole: backup, restore, migrate, rebuild. `rwkvctl` execs them."""
