r"""The string equality of the MATH data set (Hendrycks et al. 2021, arXiv 2103.03874), as lm_eval 0.4.13 applies it.

Two answers are equal if their normal forms are the same text. Where the normal form of either cannot be built (`\frac`
at the end, `a/b` with letters), the texts themselves are compared: that, too, is the original's behaviour.
"""

_TAKEN_OUT = (
    ("\n", ""),
    ("\\!", ""),
    ("\\\\", "\\"),
    ("tfrac", "frac"),
    ("dfrac", "frac"),
    ("\\left", ""),
    ("\\right", ""),
    ("^{\\circ}", ""),
    ("^\\circ", ""),
    ("\\$", ""),
)
LONGEST = 20_000


class NoNormalForm(ValueError):  # noqa: N818  # an event of the rules, not a mistake of the caller
    """The normal form of a text cannot be built."""


def same(first: str, second: str) -> bool:
    """Whether two answers have the same normal form, or are the same text where either has none."""
    if max(len(first), len(second)) > LONGEST:
        return first == second
    try:
        return normal(first) == normal(second)
    except NoNormalForm:
        return first == second


def normal(text: str) -> str:
    """Return the normal form of an answer. Raises NoNormalForm if the rules cannot be applied to it."""
    for old, new in _TAKEN_OUT:
        text = text.replace(old, new)
    text = _without_units(text).replace("\\%", "").replace(" .", " 0.").replace("{.", "{0.")
    if not text:
        return text
    if text[0] == ".":
        text = "0" + text
    text = _without_name(text)
    text = fixed_fractions(_fixed_roots(text).replace(" ", ""))
    return _fixed_slash("\\frac{1}{2}" if text == "0.5" else text)


def _without_units(text: str) -> str:
    parts = text.split("\\text{ ")
    if len(parts) > 2:
        raise NoNormalForm("two texts")
    return parts[0]


def _without_name(text: str) -> str:
    """Turn `k = 15` into 15, but only after names of one or two characters."""
    name, equals, value = text.partition("=")
    return value if equals and "=" not in value and len(name) <= 2 else text


def _fixed_roots(text: str) -> str:
    head, *rest = text.split("\\sqrt")
    if "" in rest:
        raise NoNormalForm("a root of nothing")
    return head + "".join("\\sqrt" + (part if part[0] == "{" else f"{{{part[0]}}}{part[1:]}") for part in rest)


def fixed_fractions(text: str) -> str:
    r"""Turn `\frac12` into `\frac{1}{2}`; `\frac1{72}` too. Raises NoNormalForm where `\frac` ends the text."""
    head, *rest = text.split("\\frac")
    built = head
    for part in rest:
        if not part:
            raise NoNormalForm("a fraction of nothing")
        if part[0] == "{":
            built += "\\frac" + part
        elif len(part) < 2:
            return text
        elif part[1] == "{":
            built += f"\\frac{{{part[0]}}}{part[1:]}"
        else:
            built += f"\\frac{{{part[0]}}}{{{part[1]}}}{part[2:]}"
    return built


def _fixed_slash(text: str) -> str:
    parts = text.split("/")
    if len(parts) != 2:
        return text
    try:
        top, bottom = int(parts[0]), int(parts[1])
    except ValueError as error:
        raise NoNormalForm("a quotient of other than whole numbers") from error
    return f"\\frac{{{top}}}{{{bottom}}}" if text == f"{top}/{bottom}" else text


def last_boxed(text: str) -> str | None:
    r"""Return the content of the last `\boxed{...}` (or `\fbox{...}`) as the original finds it; None if there is
    none."""
    if "\\boxed " in text:
        return text.rpartition("\\boxed ")[2].split("$")[0]
    start = text.rfind("\\boxed")
    if start < 0:
        start = text.rfind("\\fbox")
    if start < 0:
        return None
    depth, seen = 0, False
    for index in range(start, len(text)):
        if text[index] == "{":
            depth, seen = depth + 1, True
        elif text[index] == "}":
            depth -= 1
            if depth == 0 and seen:
                return text[text.index("{", start) + 1 : index] if text.startswith("\\boxed{", start) else None
    return None
