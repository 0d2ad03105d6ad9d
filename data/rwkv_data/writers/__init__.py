"""What another model, the writer, is asked to do: rules by which it rewrites completions into training texts, and rules
by which it labels problems, each by name."""

from rwkv_data.definition.errors import SettingError
from rwkv_data.writers import difficulty, thought_solution
from rwkv_data.writers.label_rule import LabelRule
from rwkv_data.writers.writer_rule import WriterRule

RULES = {rule.name: rule for rule in (thought_solution.RULE,)}
LABEL_RULES = {rule.name: rule for rule in (difficulty.RULE,)}


def rule(name: str) -> WriterRule:
    """Return the rule of a name by which completions are rewritten. Raises SettingError, which names those that
    exist."""
    if name not in RULES:
        raise SettingError(f"there is no writer rule '{name[:60]}'; there are: {', '.join(RULES)}.")
    return RULES[name]


def label_rule(name: str) -> LabelRule:
    """Return the rule of a name by which problems are labelled. Raises SettingError, which names those that exist."""
    if name not in LABEL_RULES:
        raise SettingError(f"there is no label rule '{name[:60]}'; there are: {', '.join(LABEL_RULES)}")
    return LABEL_RULES[name]
