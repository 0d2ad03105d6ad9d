"""Notifications: stored events become notices in an outbox, and each notice goes to a webhook or a command.

events (stored) -> rules (pure) -> outbox (stored, deduplicated) -> delivery (one task a target) -> webhook | command
"""
