"""The rules by which another model rewrites completions into training texts, by name."""

from rwkv_data.definition.errors import SettingError
from rwkv_data.writers import thought_solution
from rwkv_data.writers.writer_rule import WriterRule

RULES = {rule.name: rule for rule in (thought_solution.RULE,)}


def rule(name: str) -> WriterRule:
    """Return the rule of a name. Raises SettingError, which names the rules that exist."""
    if name not in RULES:
        raise SettingError(f"there is no writer rule '{name}'; there are: {', '.join(RULES)}.")
    return RULES[name]
