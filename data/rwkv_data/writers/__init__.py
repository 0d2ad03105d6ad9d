"""What another model, the writer, is asked to do: rules by which it rewrites completions into training texts or splits
them into thoughts, and rules by which it labels problems, each by name."""

from rwkv_data.definition.errors import SettingError
from rwkv_data.writers import difficulty, split_thoughts, thought_solution
from rwkv_data.writers.label_rule import LabelRule
from rwkv_data.writers.split_rule import SplitRule
from rwkv_data.writers.writer_rule import WriterRule

RULES: dict[str, WriterRule | SplitRule] = {rule.name: rule for rule in (thought_solution.RULE, split_thoughts.RULE)}
"""Rules that make samples of samples."""
SPLIT_RULE = split_thoughts.RULE
LABEL_RULES = {rule.name: rule for rule in (difficulty.RULE,)}


def rule(name: str) -> WriterRule | SplitRule:
    """Return the rule of a name by which samples are made of samples. Raises SettingError, which names those that
    exist."""
    if name not in RULES:
        raise SettingError(f"there is no writer rule '{name[:60]}'; there are: {', '.join(RULES)}.")
    return RULES[name]


def rewriting_rule(name: str) -> WriterRule:
    """Return the rule of a name by which completions are rewritten. Raises SettingError, which names those that
    exist."""
    found = RULES.get(name)
    if isinstance(found, WriterRule):
        return found
    every = ", ".join(each.name for each in RULES.values() if isinstance(each, WriterRule))
    why = f"there is no writer rule '{name[:60]}'" if found is None else f"{name} rewrites no completion"
    raise SettingError(f"{why}; there are: {every}.")


def splits(label: str) -> bool:
    """Whether a rule with its version (`split-thoughts/1`) splits completions into thoughts."""
    return label.partition("/")[0] == SPLIT_RULE.name


def label_rule(name: str) -> LabelRule:
    """Return the rule of a name by which problems are labelled. Raises SettingError, which names those that exist."""
    if name not in LABEL_RULES:
        raise SettingError(f"there is no label rule '{name[:60]}'; there are: {', '.join(LABEL_RULES)}")
    return LABEL_RULES[name]
