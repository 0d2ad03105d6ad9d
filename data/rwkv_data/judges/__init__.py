"""The rules by which another model judges answers, by name."""

from rwkv_data.definition.errors import SettingError
from rwkv_data.judges import arena, equality, hle, rwkv_skills, simpleqa
from rwkv_data.judges.judge_rule import JudgeRule

RULES = {rule.name: rule for rule in (rwkv_skills.RULE, equality.RULE, simpleqa.RULE, arena.RULE, hle.RULE)}


def rule(name: str) -> JudgeRule:
    """Return the rule of a name. Raises SettingError, which names the rules that exist."""
    if name not in RULES:
        raise SettingError(f"there is no judge rule '{name}'; there are: {', '.join(RULES)}.")
    return RULES[name]
